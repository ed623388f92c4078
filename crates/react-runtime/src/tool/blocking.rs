//! Threads for tool code that cannot be cancelled.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use tokio::sync::{Semaphore, oneshot};
use turnwright_core::{ErrorInfo, ErrorKind, panic::panic_text};

use super::ToolError;

/// Bounded threads of our own, never the embedder's blocking pool: a thread that hangs cannot be stopped, and dropping
/// a runtime waits for its blocking pool. When all threads hang, further calls wait until their deadline.
#[derive(Debug)]
pub(crate) struct BlockingPool {
    permits: Arc<Semaphore>,
    late: Arc<AtomicU64>,
}

impl BlockingPool {
    pub(crate) fn new(threads: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(threads)), late: Arc::default() }
    }

    /// Results and effects that came after their call was over, and were refused.
    pub(crate) fn late(&self) -> u64 {
        self.late.load(Relaxed)
    }

    pub(crate) fn count_late(&self) {
        self.late.fetch_add(1, Relaxed);
    }

    pub(crate) async fn run<T: Send + 'static>(
        &self,
        name: String,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ToolError> {
        let Ok(permit) = self.permits.clone().acquire_owned().await else {
            return Err(ToolError::model("the threads for blocking tools are gone"));
        };
        let (tx, rx) = oneshot::channel();
        let late = self.late.clone();
        let body = move || {
            let result = catch_unwind(AssertUnwindSafe(work)).map_err(|p| panic_text(&*p).to_owned());
            if tx.send(result).is_err() {
                late.fetch_add(1, Relaxed);
            }
            drop(permit);
        };
        std::thread::Builder::new().name(name).spawn(body).map_err(ToolError::abort)?;
        match rx.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(panic)) => {
                let message = format!("the tool panicked: {panic}");
                Err(ToolError::info(ErrorInfo::new(ErrorKind::Panic, message)))
            }
            Err(_) => Err(ToolError::model("the tool's thread is gone")),
        }
    }
}
