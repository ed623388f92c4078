//! Tools that change something, where nobody can be asked.

use turnwright_testkit::provider::Reply;

use crate::support::{ask, directory, events, run, server, stderr, stdout};

fn script() -> [Reply; 2] {
    let call = Reply::new().tool_call("w1", "write_file", r#"{"path":"a.txt","content":"b"}"#);
    [call, Reply::new().text("done")]
}

#[test]
fn nobody_asked_means_suspended_and_a_hint() {
    run(async {
        for json in [false, true] {
            let (server, root) = (server(script()).await, directory());
            let args: &[&str] = if json { &["--json", "hi"] } else { &["hi"] };
            let output = ask(&server, args).current_dir(&root).output().await.unwrap();
            let notes = stderr(&output);
            assert_eq!(output.status.code(), Some(3), "{notes}");
            assert!(notes.contains("suspended: the turn waits for 1 decision\n"), "{notes}");
            assert!(notes.contains("hint: the session is not kept"), "{notes}");
            assert!(notes.contains("`--allow write_file`"), "{notes}");
            assert!(!root.join("a.txt").exists());
            if json {
                let events = events(&stdout(&output));
                assert_eq!(events.last().unwrap()["pending"][0]["call"]["id"], "w1");
            }
        }
    });
}

#[test]
fn what_is_allowed_runs_and_the_rest_is_asked_about() {
    run(async {
        let cases: [(&[&str], &str, Option<i32>); 6] = [
            (&["--allow", "write_file"], "", Some(0)),
            (&["--allow", "shell,write_file"], "", Some(0)),
            (&["--allow", "shell", "--allow", "write_file"], "", Some(0)),
            (&[], "write_file", Some(0)),
            (&["--allow", "shell"], "write_file", Some(3)),
            (&[], " ", Some(3)),
        ];
        for (args, variable, code) in cases {
            let (server, root) = (server(script()).await, directory());
            let mut command = ask(&server, &["hi"]);
            command.args(args).env("TURNWRIGHT_ALLOW", variable);
            let output = command.current_dir(&root).output().await.unwrap();
            assert_eq!(output.status.code(), code, "{args:?} {variable:?}: {}", stderr(&output));
            assert_eq!(root.join("a.txt").exists(), code == Some(0), "{args:?}");
        }
        let server = server([]).await;
        for unknown in ["all", "read_file", "*"] {
            let output = ask(&server, &["hi", "--allow", unknown]).output().await.unwrap();
            let notes = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{notes}");
            assert!(notes.contains(unknown) && notes.contains("write_file, edit_file, shell"), "{notes}");
        }
    });
}
