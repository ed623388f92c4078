//! A person at a terminal: the program in a pseudo-terminal, with keys and a screen.
#![cfg(unix)]

use std::{path::Path, process::ExitStatus, time::Duration};

use pty_process::{Command, OwnedReadPty, OwnedWritePty, Size};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Child,
    time::timeout,
};
use turnwright_testkit::provider::{Fault, ProviderServer, Reply};

use crate::support::{directory, run, server};

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const UP: &str = "\x1b[A";

/// A terminal with the program in it.
struct Terminal {
    screen: OwnedReadPty,
    keys: OwnedWritePty,
    program: Child,
    /// All that was on the screen, without what steers it.
    seen: String,
    raw: Vec<u8>,
    /// How much of it was awaited already.
    awaited: usize,
}

impl Terminal {
    /// The program on a screen, asking this server, with the tools below this directory.
    fn open(server: &ProviderServer, root: &Path, args: &[&str]) -> Self {
        let program = Command::new(env!("CARGO_BIN_EXE_turnwright")).args(args);
        Self::start(program, "xterm", server, root)
    }

    fn start(program: Command, kind: &str, server: &ProviderServer, root: &Path) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(40, 120)).unwrap();
        let program = program
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("TERM", kind)
            .env("OPENAI_BASE_URL", server.base_url())
            .env("TURNWRIGHT_MODEL", "m")
            .env("TURNWRIGHT_TIMEOUT_IDLE", "50")
            .current_dir(root)
            .kill_on_drop(true)
            .spawn(pts)
            .unwrap();
        let (screen, keys) = pty.into_split();
        Self { screen, keys, program, seen: String::new(), raw: Vec::new(), awaited: 0 }
    }

    async fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.unwrap();
    }

    /// Waits for the prompt, and answers it.
    async fn say(&mut self, line: &str) {
        self.sees("> ").await;
        self.press(&format!("{line}\r")).await;
    }

    /// Waits until this is on the screen, after what was awaited before. Answers what came in between.
    async fn sees(&mut self, words: &str) -> String {
        loop {
            if let Some(at) = self.seen[self.awaited..].find(words) {
                let between = self.seen[self.awaited..self.awaited + at].to_owned();
                self.awaited += at + words.len();
                return between;
            }
            let more = timeout(Duration::from_secs(20), self.read()).await;
            assert_eq!(more.ok(), Some(true), "{words:?} is not there:\n{}", self.seen);
        }
    }

    /// Reads until the program has ended.
    async fn ends(&mut self) -> ExitStatus {
        while self.read().await {}
        self.program.wait().await.unwrap()
    }

    async fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // The terminal of a program that has ended cannot be read any more.
        let n = self.screen.read(&mut bytes).await.unwrap_or_default();
        self.raw.extend_from_slice(&bytes[..n]);
        self.seen = plain(&String::from_utf8_lossy(&self.raw));
        n > 0
    }
}

/// Text without escape sequences and carriage returns. One that is not whole yet is left out.
fn plain(raw: &str) -> String {
    let mut text = String::new();
    let mut rest = raw.chars();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' if rest.next() == Some('[') => {
                for c in rest.by_ref() {
                    if c.is_ascii_alphabetic() {
                        break;
                    }
                }
            }
            '\x1b' | '\r' => {}
            c => text.push(c),
        }
    }
    text
}

fn stalled(text: &str) -> Reply {
    Reply::new().text(text).fault(Fault::Stall { after: 2 })
}

fn messages(server: &ProviderServer, request: usize) -> Vec<serde_json::Value> {
    server.requests()[request].json()["messages"].as_array().unwrap().clone()
}

#[test]
fn a_conversation() {
    run(async {
        let root = directory();
        let write = r#"{"path":"notes.txt","content":"one\ntwo\n"}"#;
        let server = server([
            Reply::new().reasoning("hm, ").reasoning("easy").text("Hello, ").text("you."),
            Reply::new().tool_call("w1", "write_file", write),
            Reply::new().text("Written."),
            Reply::new().tool_call("s1", "shell", r#"{"command":"rm notes.txt"}"#),
            Reply::new().text("I left it."),
            stalled("Once upon a time"),
            Reply::new().text("Still here."),
        ])
        .await;
        let mut terminal = Terminal::open(&server, &root, &["chat"]);

        // Streamed, with what was thought folded.
        terminal.sees("openai/m; /help lists the commands").await;
        terminal.say("hi").await;
        terminal.sees("thought: 8 characters\n").await;
        terminal.sees("Hello, you.\n").await;
        terminal.sees("10 tokens in, 5 out, 1 model call, ").await;
        assert!(!terminal.seen.contains("easy"), "{}", terminal.seen);

        // A call that writes is shown and approved.
        terminal.say("write it down").await;
        let shown = terminal.sees("allow write_file (call w1)? ").await;
        let words = "approval: write_file (call w1): \"write_file\" needs approval\n  path: notes.txt\n  \
                     content (2 lines):\n    + one\n    + two\nanswer: y, n, n REASON; or ";
        assert!(shown.contains(words), "{shown}");
        assert!(!root.join("notes.txt").exists());
        terminal.press("maybe\r").await;
        terminal.sees("again: that is no answer, and it was not sent; answer with y, n, n REASON").await;
        terminal.say("y").await;
        terminal.sees("approved: call w1, by user\n← write_file ").await;
        terminal.sees("Written.\n").await;
        assert_eq!(std::fs::read_to_string(root.join("notes.txt")).unwrap(), "one\ntwo\n");

        // A command is denied, and the model is told why.
        terminal.say("clean up").await;
        terminal.sees("  command: rm notes.txt\n").await;
        terminal.say("n it is still needed").await;
        terminal.sees("denied: call s1, by user\n").await;
        terminal.sees("I left it.\n").await;
        assert!(root.join("notes.txt").exists());
        let told = messages(&server, 4).last().unwrap().to_string();
        assert!(told.contains("it is still needed"), "{told}");

        // Ctrl-C in mid-stream ends the turn and not the conversation.
        terminal.say("tell me a story").await;
        terminal.sees("Once upon a time").await;
        terminal.press(CTRL_C).await;
        terminal.sees("cancelled by user: Ctrl-C\n").await;
        terminal.say("go on").await;
        terminal.sees("Still here.\n").await;
        let story = messages(&server, 6);
        let told = |m: &serde_json::Value| {
            m["role"] == "assistant"
                && m["content"].to_string().contains("<content>Once upon a time</content>")
        };
        assert!(story.iter().any(told), "{story:?}");

        terminal.say("/history").await;
        terminal.sees("you: tell me a story\n").await;
        terminal.sees("model: Once upon a time [interrupted: user_stop]\n").await;
        terminal.sees("model: Still here.\n").await;
        terminal.say("/usage").await;
        terminal.sees("last turn: 10 tokens in, 5 out\nsession: ").await;
        terminal.sees(", 5 turns\n").await;
        terminal.say("/exit").await;
        assert_eq!(terminal.ends().await.code(), Some(0), "{}", terminal.seen);
    });
}

#[test]
fn lines_typed_while_a_turn_runs_are_read() {
    run(async {
        let server = server([stalled("Well"), stalled("Second"), Reply::new().text("Third")]).await;
        let mut terminal = Terminal::open(&server, &directory(), &["chat"]);
        terminal.say("first").await;
        terminal.sees("Well").await;
        terminal.press("/usage\n").await;
        terminal.sees("no turn yet\n").await;
        terminal.press("/nonsense\n").await;
        terminal.sees("unknown command /nonsense; ").await;
        terminal.press("second\n").await;
        terminal.sees("this waits until the turn is over").await;
        terminal.press("third\n").await;
        terminal.press("/stop\n").await;
        terminal.sees("cancelled by user: /stop\n").await;
        // What waited is sent, in order, and the first line typed after a turn is not lost.
        terminal.sees("> second\n").await;
        terminal.sees("Second").await;
        terminal.press(CTRL_C).await;
        terminal.sees("> third\n").await;
        terminal.sees("Third").await;
        terminal.say("/stop").await;
        terminal.sees("no turn is running\n").await;
        terminal.sees("> ").await;
        terminal.press(CTRL_D).await;
        assert_eq!(terminal.ends().await.code(), Some(0), "{}", terminal.seen);
    });
}

#[test]
fn leaving_in_mid_turn_says_what_was_not_sent() {
    run(async {
        let server = server([stalled("Well")]).await;
        let mut terminal = Terminal::open(&server, &directory(), &["chat"]);
        terminal.say("first").await;
        terminal.sees("Well").await;
        terminal.press("second\n/exit\n").await;
        terminal.sees("cancelled by user: /exit\n").await;
        terminal.sees("not sent: second\n").await;
        assert_eq!(terminal.ends().await.code(), Some(0), "{}", terminal.seen);
        assert_eq!(server.request_count(), 1);
    });
}

#[test]
fn lines_beyond_those_that_may_wait_are_refused_with_words() {
    run(async {
        let server = server([stalled("Well")]).await;
        let mut terminal = Terminal::open(&server, &directory(), &["chat"]);
        terminal.say("first").await;
        terminal.sees("Well").await;
        for n in 0..18 {
            terminal.press(&format!("line {n}\n")).await;
        }
        terminal.sees("16 lines wait already, this one is not taken: line 16\n").await;
        terminal.sees("16 lines wait already, this one is not taken: line 17\n").await;
    });
}

#[test]
fn at_the_prompt_two_ctrl_c_in_a_row_leave() {
    run(async {
        let server = server([Reply::new().text("ok")]).await;
        let mut terminal = Terminal::open(&server, &directory(), &["chat"]);
        terminal.sees("> ").await;
        terminal.press("half a line").await;
        terminal.press(CTRL_C).await;
        terminal.sees("once more leaves the chat\n").await;
        // Anything in between makes it the first one again, and the half line is gone.
        terminal.say("hi").await;
        terminal.sees("ok\n").await;
        assert_eq!(messages(&server, 0).last().unwrap()["content"], "hi");
        terminal.sees("> ").await;
        terminal.press(CTRL_C).await;
        terminal.sees("once more leaves the chat\n").await;
        terminal.sees("> ").await;
        terminal.press(CTRL_C).await;
        assert_eq!(terminal.ends().await.code(), Some(130), "{}", terminal.seen);
    });
}

#[test]
fn messages_may_have_several_lines_and_come_again_from_the_history() {
    run(async {
        let server = server([Reply::new().text("one"), Reply::new().text("two")]).await;
        // Without a command it is `chat` where a provider is configured.
        let mut terminal = Terminal::open(&server, &directory(), &[]);
        terminal.say("first\\\rsecond").await;
        terminal.sees("one\n").await;
        terminal.sees("> ").await;
        terminal.press(&format!("{UP}\r")).await;
        terminal.sees("two\n").await;
        for request in 0..2 {
            assert_eq!(messages(&server, request).last().unwrap()["content"], "first\nsecond");
        }
    });
}

#[test]
fn ctrl_c_ends_a_turn_that_asks_and_a_signal_ends_the_program() {
    run(async {
        let call = || Reply::new().tool_call("s1", "shell", r#"{"command":"touch x"}"#);
        let root = directory();
        let server = server([call(), Reply::new().text("Fine."), call()]).await;
        let mut terminal = Terminal::open(&server, &root, &["chat"]);
        terminal.say("do it").await;
        terminal.sees("? y/n > ").await;
        terminal.press(CTRL_C).await;
        terminal.sees("cancelled by user: Ctrl-C\n").await;
        terminal.say("never mind").await;
        terminal.sees("Fine.\n").await;
        terminal.say("again").await;
        terminal.sees("? y/n > ").await;
        terminate(&terminal.program.id().unwrap().to_string());
        assert_eq!(terminal.ends().await.code(), Some(130), "{}", terminal.seen);
        assert!(terminal.seen.contains("cancelled by user: SIGTERM\n"), "{}", terminal.seen);
        assert!(!root.join("x").exists());
    });
}

fn terminate(whom: &str) {
    assert!(std::process::Command::new("kill").args(["-TERM", "--", whom]).status().unwrap().success());
}

#[test]
fn a_signal_at_the_prompt_leaves_the_terminal_as_it_was() {
    run(async {
        let server = server([]).await;
        // The shell ignores the signal that its whole group gets, and asks the terminal afterwards.
        let script = r#"trap "" TERM; "$0" chat; echo "code $?"; stty -a"#;
        let program = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_turnwright")]);
        let mut terminal = Terminal::start(program, "xterm", &server, &directory());
        terminal.sees("\n> ").await;
        terminate(&format!("-{}", terminal.program.id().unwrap()));
        terminal.sees("code 130\n").await;
        assert_eq!(terminal.ends().await.code(), Some(0));
        for word in [" icanon ", " echo ", " isig "] {
            let seen = terminal.seen.replace('\n', " ");
            assert!(seen.contains(word), "{word}: {seen}");
        }
    });
}

#[test]
fn a_terminal_that_only_prints_gets_no_escape_codes() {
    run(async {
        let root = directory();
        let call = Reply::new().tool_call("s1", "shell", r#"{"command":"touch x"}"#);
        let server =
            server([Reply::new().reasoning("hm").text("Hello."), call, Reply::new().text("Done.")]).await;
        let program = Command::new(env!("CARGO_BIN_EXE_turnwright")).arg("chat");
        let mut terminal = Terminal::start(program, "dumb", &server, &root);
        terminal.say("hi").await;
        terminal.sees("thought: 2 characters\nHello.\n").await;
        terminal.say("/thoughts").await;
        terminal.sees("reasoning is shown whole\n").await;
        terminal.say("touch it").await;
        terminal.sees("allow shell (call s1)? y/n ").await;
        terminal.say("y").await;
        terminal.sees("Done.\n").await;
        assert!(root.join("x").exists());
        for code in [None, Some(130)] {
            terminal.sees("> ").await;
            terminal.press(CTRL_C).await;
            match code {
                None => drop(terminal.sees("once more leaves the chat\n").await),
                code => assert_eq!(terminal.ends().await.code(), code, "{}", terminal.seen),
            }
        }
        assert!(!terminal.raw.contains(&0x1b), "{}", terminal.seen);
    });
}

#[test]
fn what_was_typed_before_a_question_is_no_answer() {
    run(async {
        let call = r#"{"command":"touch x"}"#;
        let first = Reply::new().delay(Duration::from_millis(200)).text("Well").text("then");
        let root = directory();
        let server =
            server([first.tool_call("s1", "shell", call), Reply::new().text("No."), Reply::new()]).await;
        let mut terminal = Terminal::open(&server, &root, &["chat"]);
        terminal.say("do it").await;
        terminal.sees("Well").await;
        terminal.press("y\n").await;
        terminal.sees("? y/n > ").await;
        terminal.press("n\r").await;
        terminal.sees("No.\n").await;
        terminal.sees("> y\n").await;
        assert!(!root.join("x").exists());
    });
    // Several lines at once, as a paste without marks gives them, with an answer among them.
    run(async {
        let call = Reply::new().tool_call("s1", "shell", r#"{"command":"touch x"}"#);
        let root = directory();
        let server = server([call, Reply::new().text("No."), Reply::new().text("Why?")]).await;
        let mut terminal = Terminal::open(&server, &root, &["chat"]);
        terminal.sees("\n> ").await;
        terminal.press("do it\ry\r").await;
        terminal.sees("? y/n > ").await;
        terminal.press("n\r").await;
        terminal.sees("No.\n").await;
        terminal.sees("Why?\n").await;
        assert_eq!(messages(&server, 2).last().unwrap()["content"], "y");
        assert!(!root.join("x").exists());
    });
}

#[test]
fn run_asks_on_a_terminal_too() {
    run(async {
        let call = r#"{"path":"a","old_text":"x\n","new_text":"y\n"}"#;
        let root = directory();
        std::fs::write(root.join("a"), "x\n").unwrap();
        let server =
            server([Reply::new().tool_call("e1", "edit_file", call), Reply::new().text("Done.")]).await;
        let mut terminal = Terminal::open(&server, &root, &["run", "edit it"]);
        terminal.sees("  path: a\n  old_text (1 line):\n    - x\n  new_text (1 line):\n    + y\n").await;
        terminal.sees("? y/n > ").await;
        terminal.press("y\n").await;
        terminal.sees("Done.\n").await;
        assert_eq!(terminal.ends().await.code(), Some(0), "{}", terminal.seen);
        assert_eq!(std::fs::read_to_string(root.join("a")).unwrap(), "y\n");
    });
}

#[test]
fn run_takes_no_answer_from_before_the_question() {
    run(async {
        let call = r#"{"command":"touch x"}"#;
        let first = Reply::new().delay(Duration::from_millis(200)).text("Well").text("then");
        let root = directory();
        let server = server([first.tool_call("s1", "shell", call), Reply::new().text("No.")]).await;
        let mut terminal = Terminal::open(&server, &root, &["run", "do it"]);
        terminal.sees("Well").await;
        terminal.press("y\n").await;
        terminal.sees("1 line typed before the question: no answer\n").await;
        terminal.sees("? y/n > ").await;
        terminal.press("n\n").await;
        terminal.sees("No.\n").await;
        assert_eq!(terminal.ends().await.code(), Some(0), "{}", terminal.seen);
        assert!(!root.join("x").exists());
    });
}
