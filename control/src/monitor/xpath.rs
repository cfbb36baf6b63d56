//! XPath over the merged view, as in Wu et al., section 3.1 (2): "We query the XML file using
//! XPath to detect network conditions".
//!
//! The library has no limit of its own, so every query runs in a process of its own, the program
//! `sangam-xpath`, with limits on memory and time, without files, descriptors or environment.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

/// Bytes of a query.
pub const QUERY_LEN_MAX: usize = 4_096;
/// Bytes of the document: a full network of small brokers, or a thousand with ten links each.
const DOCUMENT_LEN_MAX: usize = 16 << 20;
/// Bytes of the answer, with a margin for its frame: results stop before.
const ANSWER_LEN_MAX: usize = 1 << 20;
/// Queries at once; further ones are refused.
const AT_ONCE: usize = 2;
/// Time of the clock one query may take, its process' start included.
const WALL: Duration = Duration::from_secs(5);
/// Signals by which the kernel ends who breaks a limit: SIGKILL and SIGXCPU.
const OUT_OF_TIME: [i32; 2] = [9, 24];

/// Starts a worker for each query.
#[derive(Clone, Debug)]
pub struct Evaluator {
    program: PathBuf,
    slots: Arc<Semaphore>,
}

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum XPathError {
    /// The query is wrong, by its form or by what it does.
    Query {
        /// What is wrong.
        message: String,
        /// The standard's code, such as `XPST0003`.
        code: String,
        /// Bytes of the query from and to which it is wrong, where known.
        at: Option<(usize, usize)>,
    },
    /// More than [`QUERY_LEN_MAX`] bytes.
    QueryTooLong,
    /// The network is too large to be queried as one document.
    DocumentTooLong,
    /// Other queries run.
    Busy,
    /// It took too long.
    Time,
    /// It took too much memory, or nested too deeply.
    Memory,
    /// The program is not where it should be.
    NotInstalled(PathBuf),
    /// The worker could not be run.
    Worker(String),
}

/// What the worker is told, on one line before the document.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The query.
    pub query: String,
    /// Bytes of text it may answer.
    pub answer_len_max: usize,
}

/// What the worker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Said {
    /// What the query selects.
    Answer {
        /// The items in order: as many as fit the bound of an answer.
        items: Vec<Found>,
        /// How many there are.
        total: usize,
    },
    /// What is wrong with the query.
    Error {
        /// In words.
        error: String,
        /// The standard's code, such as `XPST0003`.
        code: String,
        /// Bytes of the query from and to which it is wrong, where known.
        at: Option<(usize, usize)>,
    },
}

/// One item of a result.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// An element or document, as XML.
    Xml(String),
    /// An attribute, a text, or a computed value, as text.
    Value(String),
}

impl Evaluator {
    /// Runs `program` for each query.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            slots: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// The answer to a query, as the JSON of [`Said::Answer`]. The worker ends with the future.
    ///
    /// # Errors
    /// See [`XPathError`].
    pub async fn evaluate(&self, query: &str, document: &str) -> Result<String, XPathError> {
        if query.len() > QUERY_LEN_MAX {
            return Err(XPathError::QueryTooLong);
        }
        if document.len() > DOCUMENT_LEN_MAX {
            return Err(XPathError::DocumentTooLong);
        }
        let _slot = self.slots.try_acquire().map_err(|_| XPathError::Busy)?;
        let mut child = self.start().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => XPathError::NotInstalled(self.program.clone()),
            _ => XPathError::Worker(error.to_string()),
        })?;
        let talk = talk(&mut child, query, document);
        match tokio::time::timeout(WALL, talk).await {
            Ok(Ok((said, status))) => read(&said, status),
            Ok(Err(error)) => Err(XPathError::Worker(error.to_string())),
            Err(_) => {
                // Waits for its end, so that no more than so many run at once.
                let _ = child.kill().await;
                Err(XPathError::Time)
            }
        }
    }

    fn start(&self) -> std::io::Result<Child> {
        Command::new(&self.program)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
    }
}

/// Hands a worker its task and takes what it says.
async fn talk(
    child: &mut Child,
    query: &str,
    document: &str,
) -> std::io::Result<(Vec<u8>, ExitStatus)> {
    let order = Order {
        query: query.to_owned(),
        answer_len_max: ANSWER_LEN_MAX,
    };
    let mut task = serde_json::to_vec(&order)?;
    task.push(b'\n');
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let tell = async {
        if let Some(mut stdin) = stdin {
            // One that broke its limits does not listen to the end; its status says why.
            let _ = stdin.write_all(&task).await;
            let _ = stdin.write_all(document.as_bytes()).await;
        }
    };
    let mut said = Vec::new();
    let hear = async {
        let Some(stdout) = stdout else { return Ok(0) };
        // What the worker may say, its frame, and one byte more, by which too much shows.
        let most = ANSWER_LEN_MAX as u64 * 2;
        stdout.take(most).read_to_end(&mut said).await
    };
    let ((), heard) = tokio::join!(tell, hear);
    heard?;
    Ok((said, child.wait().await?))
}

fn read(said: &[u8], status: ExitStatus) -> Result<String, XPathError> {
    match status.signal() {
        Some(signal) if OUT_OF_TIME.contains(&signal) => return Err(XPathError::Time),
        // An allocation that fails, or a stack that ends, aborts.
        Some(_) => return Err(XPathError::Memory),
        None => {}
    }
    match serde_json::from_slice(said) {
        Ok(Said::Answer { .. }) => String::from_utf8(said.to_vec())
            .map_err(|_| XPathError::Worker("the worker's answer is no text".to_owned())),
        Ok(Said::Error { error, code, at }) => Err(XPathError::Query {
            message: error,
            code,
            at,
        }),
        Err(_) => Err(XPathError::Worker(format!(
            "the worker ended with {status}"
        ))),
    }
}

impl fmt::Display for XPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query { message, code, at } => {
                write!(f, "{message} ({code}")?;
                match at {
                    Some((start, end)) => write!(f, ", bytes {start} to {end} of the query)"),
                    None => f.write_str(")"),
                }
            }
            Self::QueryTooLong => write!(f, "a query has at most {QUERY_LEN_MAX} bytes"),
            Self::DocumentTooLong => f.write_str("the network is too large for one document"),
            Self::Busy => write!(f, "{AT_ONCE} queries run already"),
            Self::Time => f.write_str("the query took too long"),
            Self::Memory => f.write_str("the query took too much memory or nests too deeply"),
            Self::NotInstalled(program) => write!(f, "there is no {}", program.display()),
            Self::Worker(why) => write!(f, "the query could not be evaluated: {why}"),
        }
    }
}

impl std::error::Error for XPathError {}
