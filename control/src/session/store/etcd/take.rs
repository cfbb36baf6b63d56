//! Taking over sessions whose server is gone: a server that dies leaves many.

use sangam_session::SessionId;

use super::super::{Left, StoreError, TOLD_AGAIN};
use super::logs::{Holder, Logs};
use super::many::all;

/// Sessions that are taken together, with one epoch.
pub(super) const TOGETHER: usize = 64;

/// The epoch, and what came of each session; or why there is no epoch.
pub(super) type Batch = Result<(u64, Vec<Tried>), StoreError>;
/// A session as it is kept; `None` if it is another server's by now, or is none.
type Tried = (SessionId, Result<Option<Box<Left>>, StoreError>);

/// Takes sessions that nobody holds. No other server has this epoch, so that several sessions may.
pub(super) async fn take(logs: Logs, ids: Vec<SessionId>, holder: Holder) -> Batch {
    let epoch = logs.next_epoch(0).await?;
    let work = ids.into_iter().map(|id| {
        let logs = logs.clone();
        async move {
            let done = one(&logs, &id, (epoch, holder)).await;
            Ok((id, done))
        }
    });
    let done = all(work.collect()).await;
    // An error here is a task that has ended without a word: its session is still free.
    Ok((epoch, done.into_iter().flatten().collect()))
}

async fn one(
    logs: &Logs,
    id: &SessionId,
    (epoch, holder): (u64, Holder),
) -> Result<Option<Box<Left>>, StoreError> {
    if !logs.take_over(id, epoch, &holder).await? {
        return Ok(None);
    }
    match left(logs, id).await {
        Ok(Some(left)) => Ok(Some(Box::new(left))),
        Ok(None) => {
            // Its first record was never kept, and whoever had its name writes no more.
            logs.forget(id, &holder).await?;
            Ok(None)
        }
        Err(error) => {
            logs.release(id, &holder).await?;
            Err(error)
        }
    }
}

async fn left(logs: &Logs, id: &SessionId) -> Result<Option<Left>, StoreError> {
    let Some(session) = logs.load(id).await? else {
        return Ok(None);
    };
    let after = session.seq().saturating_sub(TOLD_AGAIN as u64);
    let last = logs.records(id, after, TOLD_AGAIN).await?;
    Ok(Some(Left { session, last }))
}
