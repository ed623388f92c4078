//! What `[interceptors]` of the file puts around a model call.

use std::fs;

use turnwright_testkit::provider::{Fault, Reply};

use crate::support::{ask, directory, feed, run, server, stderr, stdout, with_server};

#[test]
fn a_retry_of_the_file_asks_again() {
    run(async {
        let root = directory();
        fs::write(
            root.join("turnwright.toml"),
            "[interceptors.retry]\nattempts = 2\nbackoff_seconds = 0.01\n",
        )
        .unwrap();
        let busy = Reply::new().fault(Fault::ServerError);
        let server = server([busy, Reply::new().text("Here.")]).await;
        let output = ask(&server, &["hi"]).current_dir(&root).output().await.unwrap();
        assert_eq!(stdout(&output), "Here.\n", "{}", stderr(&output));
    });
}

#[test]
fn a_call_with_its_attempts_counts_once_and_an_open_circuit_is_not_tried_again() {
    run(async {
        let root = directory();
        let file = "[interceptors]\nretry = { attempts = 3, backoff_seconds = 0.01 }\n\
            circuit_breaker = { failures = 2, open_seconds = 20 }\n[store]\npath = \"none\"\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        let down = || Reply::new().fault(Fault::ServerError);
        let replies = (0..6).map(|_| down()).chain([Reply::new().text("too many")]);
        let server = server(replies).await;
        let mut command = with_server("chat", &server, &[]);
        let output = feed(command.current_dir(&root), "one\ntwo\nthree\n").await;
        let notes = stderr(&output);
        assert_eq!(server.requests().len(), 6, "{notes}");
        assert_eq!(notes.matches("failed 2 times in a row").count(), 1, "{notes}");
    });
}

#[test]
fn a_call_that_is_repeated_is_one_for_the_breaker() {
    run(async {
        let root = directory();
        let file = "[interceptors.retry]\nattempts = 5\nbackoff_seconds = 0.01\n[interceptors.circuit_breaker]\nfailures = 1\n";
        fs::write(root.join("turnwright.toml"), file).unwrap();
        let busy = || Reply::new().fault(Fault::ServerError);
        let server = server([busy(), busy(), Reply::new().text("Here.")]).await;
        let output = ask(&server, &["hi"]).current_dir(&root).output().await.unwrap();
        assert_eq!(stdout(&output), "Here.\n", "a call that is repeated is one call: {}", stderr(&output));
        assert_eq!(server.requests().len(), 3);
    });
}
