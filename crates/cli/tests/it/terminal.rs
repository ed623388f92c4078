//! A person at a terminal.
#![cfg(unix)]

use pty_process::Command;
use turnwright_testkit::provider::{Fault, Reply};

use crate::{
    screen::{CTRL_C, CTRL_D, Terminal, UP, messages, terminate},
    support::{directory, run, server},
};

fn stalled(text: &str) -> Reply {
    Reply::new().text(text).fault(Fault::Stall { after: 2 })
}

/// `fault_a1`, `fault_r3_46`: what was shown of a cancelled turn is in the history, and the model knows; `fault_r5_74`: a
/// question shows tool, id, reason and arguments.
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
        // One that clears another line is no second one.
        for line in ["", "another", "and one more"] {
            terminal.sees("> ").await;
            terminal.press(line).await;
            terminal.sees(line).await;
            terminal.press(CTRL_C).await;
            terminal.sees("once more leaves the chat\n").await;
        }
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
fn a_paste_keeps_its_backslashes() {
    run(async {
        let server = server([Reply::new().text("one")]).await;
        let mut terminal = Terminal::open(&server, &directory(), &["chat"]);
        terminal.say("\x1b[200~cc a \\\n b\x1b[201~\\\rmore").await;
        terminal.sees("one\n").await;
        assert_eq!(messages(&server, 0).last().unwrap()["content"], "cc a \\\n b\nmore");
    });
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
