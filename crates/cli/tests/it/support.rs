//! Running the program, and the contract of its JSON lines.

use std::{
    fs,
    path::PathBuf,
    process::{Output, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;
use tokio::{io::AsyncWriteExt, process::Command};
use turnwright_testkit::provider::{ProviderServer, Reply};

/// Runs a test with real time: sockets and a paused clock do not go together.
pub(crate) fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(Duration::from_secs(60), test).await };
    runtime.block_on(limited).unwrap_or_else(|_| panic!("the test hangs"))
}

/// The program with nothing of the environment.
pub(crate) fn turnwright(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnwright"));
    command.args(args).env_clear().kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `run` against this server, with limits so short that a test can wait for them.
pub(crate) fn ask(server: &ProviderServer, args: &[&str]) -> Command {
    with_server("run", server, args)
}

/// `chat` in a pipe, fed with this.
pub(crate) async fn talk(server: &ProviderServer, args: &[&str], input: impl AsRef<[u8]>) -> Output {
    let mut command = with_server("chat", server, args);
    feed(command.current_dir(directory()), input).await
}

/// Runs a command with this as its standard input.
pub(crate) async fn feed(command: &mut Command, input: impl AsRef<[u8]>) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let (written, output) = tokio::join!(
        async move {
            let written = stdin.write_all(input.as_ref()).await;
            drop(stdin);
            written
        },
        child.wait_with_output()
    );
    written.unwrap();
    output.unwrap()
}

/// A command that asks this server, with limits so short that a test can wait for them.
pub(crate) fn with_server(command: &str, server: &ProviderServer, args: &[&str]) -> Command {
    let mut command = turnwright(&[command]);
    command.args(args).env("OPENAI_BASE_URL", server.base_url()).env("TURNWRIGHT_MODEL", "m");
    command.env("TURNWRIGHT_TIMEOUT_CONNECT", "5").env("TURNWRIGHT_TIMEOUT_FIRST_BYTE", "5");
    command.env("TURNWRIGHT_TIMEOUT_IDLE", "0.5").env("TURNWRIGHT_TIMEOUT_TOTAL", "10");
    command
}

pub(crate) async fn server(script: impl IntoIterator<Item = Reply>) -> ProviderServer {
    ProviderServer::start(script).await.unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The events of one leg, checked against the contract: nothing but JSON objects, numbered without a gap, of one session
/// and turn, with one end, which is the last.
pub(crate) fn events(stdout: &str) -> Vec<Value> {
    assert!(stdout.ends_with('\n'), "{stdout}");
    let events: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line:?} is no JSON: {e}")))
        .collect();
    for (event, number) in events.iter().zip(1_u64..) {
        assert_eq!(event["seq"], number, "{stdout}");
        assert_eq!(event["session"], events[0]["session"]);
        assert_eq!(event["turn"], events[0]["turn"]);
        assert!(event["at"].as_str().unwrap().parse::<Timestamp>().is_ok(), "{event}");
        assert_eq!(event["type"] == "turn_finished", number == events.len() as u64, "{stdout}");
    }
    let end = events.last().unwrap();
    let is_parked = end["outcome"] == "suspended" || end["outcome"] == "drained";
    assert_eq!(end["terminal"], !is_parked);
    for field in ["content", "stop_reason", "usage", "iterations"] {
        assert!(end.get(field).is_some(), "{field} is missing: {end}");
    }
    events
}

/// What was streamed.
pub(crate) fn text(events: &[Value]) -> String {
    events.iter().filter(|e| e["type"] == "text_delta").map(|e| e["text"].as_str().unwrap()).collect()
}

/// A fresh directory.
pub(crate) fn directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("cli-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&path).unwrap();
    path
}
