//! Writing sessions down as trajectories.

use std::{process::ExitCode, time::Duration};

use tokio::task::JoinHandle;
use turnwright::{
    Agent,
    builtin::{Recording, Trajectories},
};

use crate::{
    args::{AgentArgs, ColorWhen},
    exit, output,
    refusal::Refusal,
};

/// How long the end of the program waits for a disk.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the trajectories of a run of the program go, if anywhere.
pub(crate) struct Trail(Option<(Trajectories, Vec<Recording>, JoinHandle<()>)>);

impl Trail {
    /// Begins, on the runtime that is current.
    pub(crate) fn begin(args: &AgentArgs, agents: &[Agent]) -> Self {
        Self(args.trajectory.as_deref().map(|folder| {
            let (trajectories, worker) = Trajectories::below(folder, env!("CARGO_PKG_VERSION"));
            let recordings = agents.iter().map(|agent| trajectories.attach(agent)).collect();
            (trajectories, recordings, tokio::spawn(worker))
        }))
    }

    /// Waits until all is written, and says so when it is not; then nothing is well that otherwise would be.
    pub(crate) async fn end(self, code: ExitCode, color: ColorWhen) -> ExitCode {
        let Some((trajectories, recordings, worker)) = self.0 else { return code };
        drop(recordings);
        let flushed = tokio::time::timeout(PATIENCE, trajectories.flush()).await;
        let stats = trajectories.stats();
        worker.abort();
        let why = match (flushed, stats.failed, stats.dropped) {
            (Ok(Ok(())), 0, 0) => return code,
            (Ok(Ok(())), 0, dropped) => format!("{dropped} records of the trajectory were dropped"),
            (Ok(Ok(())), ..) => "the trajectory was not written as a whole".into(),
            _ => format!("the trajectory was not written within {PATIENCE:?}"),
        };
        let hint =
            "point --trajectory at a directory of yours; a file there that is no trajectory is left alone";
        output::refuse(&Refusal::new(why).hint(hint), color);
        if code == ExitCode::SUCCESS { exit::FAILED.into() } else { code }
    }
}
