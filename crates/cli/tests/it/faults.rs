//! `--json` whatever the provider does.

use std::time::Duration;

use turnwright_testkit::provider::{Fault, Reply};

use crate::support::{ask, events, run, server, stderr, stdout, text};

fn reply() -> Reply {
    Reply::new().text("Hel").text("lo")
}

/// Kind of error and streamed text of a fault; none where the answer is whole all the same.
fn expected(fault: Fault) -> Option<(&'static str, &'static str)> {
    Some(match fault {
        _ if fault.is_harmless() => return None,
        Fault::Stall { .. } => ("idle_timeout", "Hel"),
        Fault::EndWithoutTerminal { .. } | Fault::AbruptClose { .. } => ("truncated", "Hel"),
        Fault::ErrorInStream { .. } => ("server", "Hel"),
        Fault::GarbageLine { .. } => ("decode", "Hel"),
        Fault::RateLimited { .. } => ("rate_limited", ""),
        Fault::ServerError => ("server", ""),
        Fault::HtmlWithOk => ("unexpected_content", ""),
        Fault::JsonErrorWithOk => ("authentication", ""),
        other => panic!("{other:?} is not covered"),
    })
}

#[test]
fn every_fault_ends_in_one_last_line_that_says_what_happened() {
    run(async {
        for fault in Fault::ALL {
            let server = server([reply().fault(fault)]).await;
            let output = ask(&server, &["--json", "hi"]).output().await.unwrap();
            let events = events(&stdout(&output));
            let end = events.last().unwrap();
            match expected(fault) {
                None => {
                    assert_eq!(
                        (output.status.code(), &end["outcome"]),
                        (Some(0), &"completed".into()),
                        "{fault:?}"
                    );
                    assert_eq!((&end["content"], end.get("error")), (&"Hello".into(), None), "{fault:?}");
                    assert_eq!(stderr(&output), "");
                }
                Some((kind, shown)) => {
                    assert_eq!(
                        (output.status.code(), &end["outcome"]),
                        (Some(1), &"failed".into()),
                        "{fault:?}"
                    );
                    assert_eq!(end["error"]["kind"], kind, "{fault:?}: {end}");
                    assert_eq!(
                        (text(&events).as_str(), &end["content"]),
                        (shown, &shown.into()),
                        "{fault:?}"
                    );
                    assert!(stderr(&output).starts_with("error: openai: "), "{fault:?}: {}", stderr(&output));
                }
            }
            assert_eq!(server.request_count(), 1, "{fault:?}");
        }
    });
}

#[test]
fn the_limits_of_a_call_can_be_set() {
    run(async {
        let silent = || Reply::new().fault(Fault::Stall { after: 0 });
        let slow =
            || (0..100).fold(Reply::new().delay(Duration::from_millis(50)), |reply, _| reply.text("a"));
        for (reply, option, kind) in [
            (silent(), "--timeout-first-byte", "first_byte_timeout"),
            (reply().fault(Fault::Stall { after: 2 }), "--timeout-idle", "idle_timeout"),
            (slow(), "--timeout-total", "total_timeout"),
        ] {
            let server = server([reply]).await;
            let output = ask(&server, &["--json", "hi", option, "0.3"]).output().await.unwrap();
            let events = events(&stdout(&output));
            assert_eq!(events.last().unwrap()["error"]["kind"], kind);
            assert!(stderr(&output).contains(option), "the hint names the option: {}", stderr(&output));
        }
    });
}

#[test]
fn a_limit_and_a_deadline_have_their_own_code() {
    run(async {
        let call = || Reply::new().tool_call("c", "current_time", "{}");
        let script = server([call(), call(), call()]).await;
        let output = ask(&script, &["--json", "hi", "--max-iterations", "2"]).output().await.unwrap();
        let seen = events(&stdout(&output));
        assert_eq!(
            (output.status.code(), &seen.last().unwrap()["outcome"]),
            (Some(4), &"limit_reached".into())
        );
        assert_eq!(script.request_count(), 2);
        assert!(stderr(&output).contains("--max-iterations"), "{}", stderr(&output));

        let silent = server([reply().fault(Fault::Stall { after: 2 })]).await;
        let output = ask(&silent, &["--json", "hi", "--deadline", "0.3"]).output().await.unwrap();
        let seen = events(&stdout(&output));
        let end = seen.last().unwrap();
        assert_eq!((output.status.code(), &end["outcome"]), (Some(4), &"timed_out".into()));
        assert_eq!(end["content"], "Hel");
        assert!(stderr(&output).contains("--deadline"), "{}", stderr(&output));
    });
}

#[test]
fn nobody_listens() {
    run(async {
        let gone = server([]).await.base_url();
        let stub = server([]).await;
        let output = ask(&stub, &["--json", "hi", "--base-url", &gone]).output().await.unwrap();
        let seen = events(&stdout(&output));
        assert_eq!(
            (output.status.code(), &seen.last().unwrap()["error"]["kind"]),
            (Some(1), &"connection".into())
        );
        assert!(stderr(&output).contains("hint: is a server running there?"), "{}", stderr(&output));
        assert_eq!(stub.request_count(), 0, "the option wins over the environment");
    });
}

#[test]
fn another_api_goes_to_another_address() {
    run(async {
        // The server knows chat completions only.
        let server = server([Reply::new().text("hi")]).await;
        let output = ask(&server, &["--provider", "openai-responses", "hi"]).output().await.unwrap();
        assert_eq!(output.status.code(), Some(1));
        let notes = stderr(&output);
        assert!(notes.contains("404"), "{notes}");
        let output = ask(&server, &["--provider", "openai", "hi"]).output().await.unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "hi\n"));
    });
}
