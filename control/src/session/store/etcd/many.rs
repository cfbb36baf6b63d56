//! Much to be asked of the cluster at once, but not too much.

use tokio::task::{JoinError, JoinSet};

use super::super::StoreError;
use super::failed;

/// Asks that are under way at once. The cluster writes what comes together with one wait for its
/// disks, so that many cost little more than one.
const AT_ONCE: usize = 64;

/// Does all of it, in no order. Whatever becomes of one, the others are done.
pub(super) async fn all<T, F>(work: Vec<F>) -> Vec<Result<T, StoreError>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, StoreError>> + Send + 'static,
{
    let mut done = Vec::with_capacity(work.len());
    let mut under_way = JoinSet::new();
    for one in work {
        if under_way.len() >= AT_ONCE {
            done.extend(under_way.join_next().await.map(ended));
        }
        under_way.spawn(one);
    }
    while let Some(one) = under_way.join_next().await {
        done.push(ended(one));
    }
    done
}

fn ended<T>(one: Result<Result<T, StoreError>, JoinError>) -> Result<T, StoreError> {
    one.unwrap_or_else(|error| Err(failed(error)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn all_is_done_but_only_so_much_at_once() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = (0..500).map(|n| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                match n % 100 {
                    0 => Err(failed("one in a hundred")),
                    _ => Ok(n),
                }
            }
        });
        let done = all(work.collect()).await;
        let mut good: Vec<_> = done.iter().flatten().copied().collect();
        good.sort_unstable();
        let wanted: Vec<_> = (0..500).filter(|n| n % 100 != 0).collect();
        assert_eq!(good, wanted);
        assert_eq!(done.len(), 500);
        assert!(most.load(Ordering::SeqCst) <= AT_ONCE);
    }
}
