//! Ctrl-C, SIGTERM, and a reader who goes away, does not read or is a full disk.
#![cfg(unix)]

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::sleep,
};
use turnwright_testkit::provider::{Fault, ProviderServer, Reply};

use crate::support::{ask, directory, events, run, server, stderr, stdout, text, with_server};

/// Says `Hel` and `lo`, and then nothing for ever.
async fn stalled() -> ProviderServer {
    server([Reply::new().text("Hel").text("lo").fault(Fault::Stall { after: 3 })]).await
}

async fn signal(child: &Child, name: &str) {
    let pid = child.id().unwrap().to_string();
    let status = Command::new("kill").args([name, &pid]).status().await.unwrap();
    assert!(status.success());
}

fn patient(server: &ProviderServer, args: &[&str]) -> Command {
    let mut command = ask(server, args);
    command.env("TURNWRIGHT_TIMEOUT_IDLE", "50").env("TURNWRIGHT_TIMEOUT_TOTAL", "50");
    command
}

/// Reads lines until the text so far is this.
async fn until_shown(lines: &mut Lines<BufReader<ChildStdout>>, expected: &str) -> String {
    let (mut seen, mut shown) = (String::new(), String::new());
    while shown != expected {
        let line = lines.next_line().await.unwrap().expect("the program is still there");
        seen.push_str(&line);
        seen.push('\n');
        shown = text(&[serde_json::from_str(&line).unwrap()]).chars().fold(shown, |s, c| s + &c.to_string());
    }
    seen
}

#[test]
fn a_signal_in_mid_stream_cancels_the_turn_and_keeps_what_was_shown() {
    run(async {
        for (name, reason) in [("-INT", "Ctrl-C"), ("-TERM", "SIGTERM")] {
            let server = stalled().await;
            let mut child = patient(&server, &["--json", "hi"]).spawn().unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut seen = until_shown(&mut lines, "Hello").await;
            signal(&child, name).await;
            while let Some(line) = lines.next_line().await.unwrap() {
                seen.push_str(&line);
                seen.push('\n');
            }
            assert_eq!(child.wait().await.unwrap().code(), Some(130));
            let events = events(&seen);
            let end = events.last().unwrap();
            assert_eq!((&end["outcome"], &end["content"]), (&"cancelled".into(), &"Hello".into()));
            assert_eq!(end["cancelled_by"]["actor"], "user");
            assert_eq!(end["cancelled_by"]["reason"], reason);
            server.wait_for_client_closes(1).await;
        }
    });
}

#[test]
fn people_are_told_who_cancelled() {
    run(async {
        let server = stalled().await;
        let mut child = patient(&server, &["hi"]).spawn().unwrap();
        let mut shown = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut shown).await.unwrap();
        signal(&child, "-INT").await;
        let output = child.wait_with_output().await.unwrap();
        assert_eq!((output.status.code(), &shown), (Some(130), b"Hello"));
        assert_eq!(output.stdout, b"\n");
        let notes = String::from_utf8(output.stderr).unwrap();
        assert!(notes.starts_with("cancelled by user: Ctrl-C\n"), "{notes}");
    });
}

#[test]
fn a_closed_standard_output_cancels_the_turn_without_a_word() {
    run(async {
        let endless =
            (0..2000).fold(Reply::new().delay(Duration::from_millis(20)), |reply, _| reply.text("a"));
        for (args, shown) in [(&["--json", "hi"][..], "text_delta"), (&["hi"], "a")] {
            let server = server([endless.clone()]).await;
            let mut child = patient(&server, args).spawn().unwrap();
            let mut stdout = child.stdout.take().unwrap();
            let mut read = Vec::new();
            while !read.ends_with(shown.as_bytes()) {
                read.push(stdout.read_u8().await.unwrap());
            }
            drop(stdout);
            let output = child.wait_with_output().await.unwrap();
            assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(130), &b""[..]));
            server.wait_for_client_closes(1).await;
        }
    });
}

#[test]
fn a_reader_who_does_not_read_holds_up_neither_the_turn_nor_the_user() {
    run(async {
        // More than a pipe holds.
        let flood = "x".repeat(4 << 10);
        let flood = (0..100).fold(Reply::new(), |reply, _| reply.text(flood.clone()));
        let server = server([flood.fault(Fault::Stall { after: 101 })]).await;
        let mut command = patient(&server, &["--json", "hi"]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let unread = child.stdout.take().unwrap();
        server.wait_for_requests(1).await;
        sleep(Duration::from_millis(500)).await;
        signal(&child, "-INT").await;
        // The turn ends, though its last line cannot be written.
        server.wait_for_client_closes(1).await;
        assert!(child.try_wait().unwrap().is_none(), "it waits for its reader");
        sleep(Duration::from_millis(100)).await;
        signal(&child, "-INT").await;
        sleep(Duration::from_millis(200)).await;
        assert!(child.try_wait().unwrap().is_none(), "only the third time it leaves");
        signal(&child, "-INT").await;
        assert_eq!(child.wait().await.unwrap().code(), Some(130));
        drop(unread);
    });
}

/// More text than a pipe holds, and then more events than a turn keeps for its reader.
fn too_fast(more: usize) -> (Reply, String, usize) {
    let head = "x".repeat(200 << 10);
    let reply = (0..more).fold(Reply::new().text(head.clone()), |reply, _| reply.reasoning("r").text("a"));
    // The first event of a reply says nothing.
    (reply, head + &"a".repeat(more), 2 + 2 * more)
}

#[test]
fn a_reader_who_is_too_slow_gets_the_whole_answer_in_the_end() {
    run(async {
        // The answer goes on where it was broken off.
        let (reply, answer, steps) = too_fast(5000);
        let server = server([reply.fault(Fault::Stall { after: steps })]).await;
        let child = ask(&server, &["hi"]).spawn().unwrap();
        server.wait_for_client_closes(1).await;
        let output = child.wait_with_output().await.unwrap();
        let notes = stderr(&output);
        assert!(notes.contains("were not shown: the output was read too slowly"), "{notes}");
        assert!(stdout(&output) == answer + "\n", "{} bytes", output.stdout.len());
        assert_eq!(output.status.code(), Some(1), "{notes}");
    });
    run(async {
        // The answer is another one than what was shown last.
        let (reply, early, _) = too_fast(5000);
        let call = reply.tool_call("c", "list_dir", "{}");
        let server = server([call, Reply::new().text("The ").text("end.")]).await;
        let child = ask(&server, &["hi"]).current_dir(directory()).spawn().unwrap();
        server.wait_for_requests(2).await;
        let output = child.wait_with_output().await.unwrap();
        let (shown, notes) = (stdout(&output), stderr(&output));
        let (before, answer) = shown.trim_end().rsplit_once('\n').unwrap();
        assert!(early.starts_with(before.trim_end()), "{} bytes", before.len());
        assert_eq!((answer, output.status.code()), ("The end.", Some(0)), "{notes}");
        assert!(notes.contains("note: this is the whole answer"), "{notes}");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure_and_not_a_wish() {
    run(async {
        for args in [&["hi"][..], &["--json", "hi"]] {
            for reply in
                [Reply::new().text("Hello"), Reply::new().text("Hel").fault(Fault::Stall { after: 2 })]
            {
                let server = server([reply]).await;
                let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
                let child = patient(&server, args).stdout(full).spawn().unwrap();
                let output = child.wait_with_output().await.unwrap();
                let notes = stderr(&output);
                assert!(notes.starts_with("error: standard output cannot be written: "), "{args:?}: {notes}");
                assert_eq!((output.status.code(), notes.lines().count()), (Some(1), 1), "{args:?}: {notes}");
            }
        }
    });
}

/// No turn runs: it is a command whose words nobody reads.
#[test]
fn three_signals_end_a_chat_whose_notes_nobody_reads() {
    run(async {
        let server = server([]).await;
        let mut command = with_server("chat", &server, &[]);
        let mut child = command.current_dir(directory()).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all("/help\n".repeat(300).as_bytes()).await.unwrap();
        // Held, and not read: it fills up until it grows no more.
        let mut notes = child.stderr.take().unwrap();
        notes.read_exact(&mut [0; 1]).await.unwrap();
        let mut full = 0;
        loop {
            sleep(Duration::from_millis(50)).await;
            match rustix::io::ioctl_fionread(&notes).unwrap() {
                held if held > 0 && held == full => break,
                held => full = held,
            }
        }
        // More than enough: two that come at once may be one.
        while child.try_wait().unwrap().is_none() {
            signal(&child, "-TERM").await;
            sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(child.wait().await.unwrap().code(), Some(130));
    });
}
