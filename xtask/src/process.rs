//! Starting other programs: to the terminal, for their output, or within a time limit.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::workspace;

/// The cargo that runs us, in the workspace root.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(workspace::root());
    command
}

/// Runs to the end with our own output streams.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    println!("$ {}", shown(command));
    let status = command.status().map_err(|e| format!("`{}` did not start: {e}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", shown(command))) }
}

/// Runs to the end and gives standard output; standard error is part of the error.
pub(crate) fn capture(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("`{}` did not start: {e}", shown(command)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{}` failed ({}):\n{}", shown(command), output.status, errors.trim_end()))
}

/// Whether the program starts and succeeds; its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Runs with standard output copied to ours line by line, and shows each line to `see`.
pub(crate) fn tee(command: &mut Command, mut see: impl FnMut(&str)) -> Result<(), String> {
    println!("$ {}", shown(command));
    let failed = |e: std::io::Error| format!("standard output of a child was lost: {e}");
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("`{}` did not start: {e}", shown(command)))?;
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).map_err(failed)? > 0 {
            let text = String::from_utf8_lossy(&line);
            print!("{text}");
            see(text.trim_end());
            line.clear();
        }
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", shown(command))) }
}

/// Runs for at most `limit`, then kills the child.
///
/// Its standard output is a pipe that a thread empties: end of file tells that the child is done.
pub(crate) fn bounded(command: &mut Command, limit: Duration) -> Result<(), String> {
    println!("$ {}", shown(command));
    let name = shown(command);
    let failed = |e: std::io::Error| format!("`{name}` did not run: {e}");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (done, ended) = mpsc::channel();
    if let Some(mut stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let read = stdout.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned());
            // The receiver is gone when the time was up; then nobody wants the text.
            let _ = done.send(read.unwrap_or_default());
        });
    }
    let Ok(text) = ended.recv_timeout(limit) else {
        child.kill().and_then(|()| child.wait()).map_err(failed)?;
        return Err(format!("`{name}` was stopped after {} s", limit.as_secs()));
    };
    print!("{text}");
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(format!("`{name}` failed ({status})")) }
}

/// The command line as a person would type it.
fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_outlives_its_limit_is_stopped() {
        assert_eq!(bounded(&mut cargo(&["--version"]), Duration::from_secs(60)), Ok(()));
        let mut missing = Command::new("no-such-program");
        assert!(bounded(&mut missing, Duration::from_secs(1)).unwrap_err().contains("did not run"));
        if cfg!(unix) {
            let stopped = bounded(Command::new("sleep").arg("60"), Duration::from_millis(10));
            assert!(stopped.unwrap_err().contains("was stopped"));
        }
    }

    #[test]
    fn a_failing_child_names_its_command_line() {
        let error = capture(&mut cargo(&["no-such-command"])).unwrap_err();
        assert!(error.starts_with("`cargo no-such-command` failed"), "{error}");
    }
}
