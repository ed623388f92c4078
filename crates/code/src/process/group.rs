//! A process group that dies with its owner.

use std::{io, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::{
    process::{Child, Command},
    time::sleep,
};

/// The shell of POSIX systems.
pub const SHELL: &str = "/bin/sh";

/// What the anchor does: it waits for the end of its input, which comes when our end of it closes, by whatever end this
/// program comes to, and takes its group with it.
const ANCHOR: &str = "trap '' HUP INT QUIT TERM; read -r _; kill -KILL 0";

/// How often, and how many times, is looked whether the killed are gone. Killed they are in any case.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const MOST_LOOKS: u32 = 40;

/// A process group of its own, with an anchor in it: a shell that waits and does nothing else.
///
/// The anchor leads the group and is ours to reap. Until we do, its number belongs to nobody else, whatever became of
/// the others: who kills the group by that number cannot hit a stranger. And when this program is gone without a word
/// (a crash, `kill -9`) the anchor is left to end the group.
///
/// Dropping it kills the group; the anchor is reaped by the async runtime. A process that leaves its group (`setsid`) is not
/// found again.
#[derive(Debug)]
pub struct Group {
    id: Pid,
    /// Holds the other end of its input.
    anchor: Child,
}

impl Group {
    /// Starts the anchor.
    ///
    /// # Errors
    /// When no process can be started. Called outside of an async runtime it panics.
    pub fn new() -> io::Result<Self> {
        let mut anchor = Command::new(SHELL);
        anchor.args(["-c", ANCHOR]).env_clear().current_dir("/").process_group(0);
        anchor.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let anchor = anchor.spawn()?;
        let id = anchor.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let id = id.ok_or_else(|| io::Error::other("a process without a number"))?;
        Ok(Self { id, anchor })
    }

    /// Starts a further process in the group.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        command.process_group(self.id.as_raw_nonzero().get()).spawn()
    }

    /// Kills every process of the group.
    pub fn kill(&self) {
        // Once the anchor was reaped the number may be a stranger's.
        if self.anchor.id().is_some() {
            // An empty group is what was asked for.
            let _ = kill_process_group(self.id, Signal::KILL);
        }
    }

    /// Kills the group and waits until it is gone, but not for long: a process that the system holds, or that nobody
    /// reaps, stays in it for a while, dead to the world.
    ///
    /// # Cancel safety
    /// Dropped, the group is killed all the same.
    pub async fn end(mut self) {
        self.kill();
        let _ = tokio::time::timeout(LOOK_EVERY * MOST_LOOKS, self.anchor.wait()).await;
        for _ in 0..MOST_LOOKS {
            // Asking harms nobody, a stranger neither.
            if test_kill_process_group(self.id).is_err() {
                return;
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(group: &Group) -> Child {
        group.spawn(Command::new("sleep").arg("1000").kill_on_drop(true)).unwrap()
    }

    /// Waits for a process that somebody killed.
    async fn is_killed(child: &mut Child) {
        let status = tokio::time::timeout(Duration::from_secs(60), child.wait()).await;
        assert!(!status.expect("it lives on").unwrap().success());
    }

    /// What is left when this program is gone without a word: an anchor whose input has ended.
    #[tokio::test]
    async fn the_group_ends_when_its_owner_is_gone() {
        let mut group = Group::new().unwrap();
        let mut sleeper = sleeper(&group);
        drop(group.anchor.stdin.take());
        is_killed(&mut sleeper).await;
        is_killed(&mut group.anchor).await;
    }

    #[tokio::test]
    async fn a_dropped_group_is_killed() {
        let group = Group::new().unwrap();
        let mut sleeper = sleeper(&group);
        drop(group);
        is_killed(&mut sleeper).await;
    }

    /// A command may kill its whole group, the anchor included. Until the anchor is reaped its number is nobody else's.
    #[tokio::test]
    async fn the_number_is_ours_until_the_anchor_is_reaped() {
        let mut group = Group::new().unwrap();
        let mut sleeper = sleeper(&group);
        kill_process_group(group.id, Signal::KILL).unwrap();
        is_killed(&mut sleeper).await;
        assert!(group.anchor.id().is_some());
        group.kill();
        is_killed(&mut group.anchor).await;
        assert!(group.anchor.id().is_none(), "from here on nothing is killed by that number");
        group.end().await;
    }
}
