//! What was recorded comes again.

use std::{fs, path::PathBuf, time::Duration};

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use turnwright_core::{
    ErrorKind, RetryAdvice,
    clock::{Clock, SystemClock},
};
use turnwright_llm_stream::{LlmClient, LlmEvent, LlmRequest, StreamItem};
use turnwright_providers::{ChatClient, Recorder, Replayer};
use turnwright_testkit::provider::{Fault, ProviderServer, Reply};

use super::{body, files, fresh, head, items, replaying, reply, saying};
use crate::support::{ask, builder, collect, context, request, run, server, short, stream};

#[test]
fn every_fault_replays_as_it_was_item_for_item() {
    run(async {
        for fault in Fault::ALL.into_iter().map(Some).chain([None]) {
            let (_guard, path) = fresh();
            let reply = match fault {
                Some(fault) => reply().fault(fault),
                None => reply(),
            };
            let server = server(reply).await;
            let recorder = Recorder::open(&path).unwrap();
            let recorded = items(&builder(&server).record(&recorder).build().unwrap(), &request()).await;
            assert_eq!(recorder.failure(), None, "{fault:?}");
            drop(server);

            let replayer = Replayer::open(&path).unwrap();
            let replayed = items(&replaying(&replayer), &request()).await;
            assert_eq!(replayed, recorded, "{fault:?}");
            assert_eq!(files(&path), ["0001.body", "0001.json"], "{fault:?}");
            assert_eq!(replayer.unused(), Vec::<PathBuf>::new());

            let head = head(&path, 1);
            let how = match fault {
                Some(Fault::Stall { .. }) => "limit",
                Some(Fault::AbruptClose { .. }) => "broken",
                Some(Fault::HeartbeatsAfterFinish { .. }) => "drained",
                Some(Fault::EndWithoutTerminal { .. } | Fault::MissingDone | Fault::RateLimited { .. }) => {
                    "end"
                }
                Some(Fault::ServerError | Fault::HtmlWithOk) => "end",
                _ => "enough",
            };
            assert_eq!(head["ending"]["how"], how, "{fault:?}: {head}");
            assert_eq!(head["answer"]["bytes"], body(&path, 1).len(), "{fault:?}");
            if let Some(Fault::RateLimited { .. }) = fault {
                assert_eq!(
                    (&head["answer"]["status"], &head["answer"]["headers"]["retry-after"]),
                    (&json!(429), &json!("2"))
                );
            }
        }
    });
}

#[test]
fn equal_requests_are_answered_in_their_order_and_different_ones_in_any() {
    run(async {
        let (_guard, path) = fresh();
        let server =
            ProviderServer::start(["one", "two", "three"].map(|text| Reply::new().text(text))).await.unwrap();
        let recorder = Recorder::open(&path).unwrap();
        let client = builder(&server).record(&recorder).build().unwrap();
        let text = async |client: &ChatClient, asked: &str| {
            collect(turnwright_llm_stream::EventStream::provider(
                client.stream(&context(), &saying(asked)),
                &Default::default(),
                None,
            ))
            .await
        };
        for asked in ["a", "a", "b"] {
            text(&client, asked).await;
        }
        let replayer = Replayer::open(&path).unwrap();
        let client = replaying(&replayer);
        let (b, first) = futures::join!(text(&client, "b"), text(&client, "a"));
        assert_eq!((b.text(), first.text()), ("three".into(), "one".into()));
        assert_eq!(replayer.unused(), [path.join("0002.json")]);
        assert_eq!(text(&client, "a").await.text(), "two");
        let error = text(&client, "a").await.error.unwrap();
        assert_eq!((error.kind, error.retry), (ErrorKind::Configuration, RetryAdvice::Never));
        assert!(
            error.message.ends_with("an equal request was recorded 2 times, and all were used"),
            "{error}"
        );

        let client = replaying(&Replayer::open(&path).unwrap());
        let error = text(&client, "bcd").await.error.unwrap();
        let words = "0003.json, differs at messages[0].content: the texts differ from character 2 on, of 1 recorded and 3 asked";
        assert!(error.message.ends_with(words), "{error}");
        let other = LlmRequest { model: "n".into(), ..saying("a") };
        let StreamItem::Event(LlmEvent::StreamFailure(failure)) = items(&client, &other).await.remove(0)
        else {
            panic!()
        };
        assert!(failure.error.message.ends_with("asked another model, 0001.json m, not n"), "{failure:?}");
    });
}

#[test]
fn calls_at_once_are_kept_apart() {
    run(async {
        let (_guard, path) = fresh();
        let server = ProviderServer::start_repeating(reply().delay(Duration::from_millis(2))).await.unwrap();
        let recorder = Recorder::open(&path).unwrap();
        let client = builder(&server).record(&recorder).build().unwrap();
        let asked: Vec<LlmRequest> = (0..8).map(|n| saying(&format!("say {n}"))).collect();
        let recorded = futures::future::join_all(asked.iter().map(|asked| items(&client, asked))).await;
        assert_eq!(files(&path).len(), 16);
        let replayer = Replayer::open(&path).unwrap();
        let client = replaying(&replayer);
        let replayed = futures::future::join_all(asked.iter().rev().map(|asked| items(&client, asked))).await;
        assert!(replayed.into_iter().rev().eq(recorded));
        assert!(replayer.unused().is_empty());
    });
}

#[test]
fn a_call_that_is_dropped_is_kept_and_marked() {
    run(async {
        let (_guard, path) = fresh();
        let server = server(reply().fault(Fault::Stall { after: 3 })).await;
        let recorder = Recorder::open(&path).unwrap();
        let client = builder(&server).record(&recorder).build().unwrap();
        let mut events = stream(&client);
        while let Some(event) = events.next().await {
            if matches!(event, LlmEvent::TextDelta { .. }) {
                break;
            }
        }
        assert_eq!(head(&path, 1)["ending"]["how"], "unfinished", "while it goes on");
        assert_eq!(head(&path, 1)["answer"]["status"], 200);
        // As it lies there when the process is killed.
        let (_guard, killed) = fresh();
        fs::create_dir_all(&killed).unwrap();
        for file in files(&path) {
            fs::copy(path.join(&file), killed.join(&file)).unwrap();
        }
        drop(events);
        assert_eq!(head(&path, 1)["ending"]["how"], "dropped");
        assert!(body(&path, 1).contains("Hel"));
        let replayed = ask(&replaying(&Replayer::open(&path).unwrap())).await;
        let error = replayed.error.as_ref().unwrap();
        assert_eq!((replayed.text().as_str(), error.kind), ("Hel", ErrorKind::Truncated));
        assert!(error.message.contains("where its caller stopped reading"), "{error}");
        let replayed = ask(&replaying(&Replayer::open(&killed).unwrap())).await;
        let error = replayed.error.as_ref().unwrap();
        assert_eq!((replayed.text().as_str(), error.kind), ("Hel", ErrorKind::Truncated));
        assert!(error.message.contains("the recording ends here, unfinished"), "{error}");
    });
}

#[test]
fn no_answer_at_all_replays_too() {
    run(async {
        let (_guard, path) = fresh();
        let recorder = Recorder::open(&path).unwrap();
        let gone = server(reply()).await.base_url();
        let client =
            ChatClient::builder().base_url(gone).timeouts(short()).record(&recorder).build().unwrap();
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", silent.local_addr().unwrap());
        let late =
            ChatClient::builder().base_url(base_url).timeouts(short()).record(&recorder).build().unwrap();
        let recorded = [items(&client, &saying("a")).await, items(&late, &saying("b")).await];
        assert_eq!(files(&path), ["0001.json", "0002.json"]);
        assert_eq!(head(&path, 1)["ending"]["how"], "no_answer");
        assert_eq!(
            head(&path, 2)["ending"],
            json!({ "how": "limit", "kind": "first_byte_timeout", "seconds": 1.5 })
        );
        let client = replaying(&Replayer::open(&path).unwrap());
        assert_eq!([items(&client, &saying("a")).await, items(&client, &saying("b")).await], recorded);
    });
}

#[test]
fn recorded_timing_is_kept_and_virtual_time_jumps_over_it() {
    let (_guard, path) = fresh();
    run(async {
        let server = server(reply().delay(Duration::from_millis(30))).await;
        let recorder = Recorder::open(&path).unwrap();
        ask(&builder(&server).record(&recorder).build().unwrap()).await;
    });
    let took = head(&path, 1)["ended_ms"].as_u64().unwrap();
    // A pause of twenty seconds, as nobody waits for.
    let mut head = head(&path, 1);
    for piece in head["answer"]["pieces"].as_array_mut().unwrap().iter_mut().skip(3) {
        piece[0] = json!(20_000 + piece[0].as_u64().unwrap());
    }
    fs::write(path.join("0001.json"), head.to_string()).unwrap();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        for (is_timed, seconds) in [(true, 20), (false, 0)] {
            let mut replayer = Replayer::open(&path).unwrap();
            if is_timed {
                replayer = replayer.recorded_timing();
            }
            let begun = SystemClock.instant();
            let response = ask(&replaying(&replayer)).await;
            assert_eq!((response.error, response.parts.len()), (None, 3));
            assert_eq!((SystemClock.instant() - begun).as_secs(), seconds);
        }
    });
    assert!(took >= 100, "each piece came by itself: {took} ms");
}

#[test]
fn a_body_may_be_edited_by_hand() {
    run(async {
        let (_guard, path) = fresh();
        let server = server(Reply::new().text("a")).await;
        let recorder = Recorder::open(&path).unwrap();
        ask(&builder(&server).record(&recorder).build().unwrap()).await;
        let edited = body(&path, 1).replace("\"a\"", "\"something else\"");
        fs::write(path.join("0001.body"), edited).unwrap();
        let replayer = Replayer::open(&path).unwrap();
        assert_eq!(ask(&replaying(&replayer)).await.text(), "something else");
    });
}

#[test]
fn a_date_to_ask_again_at_counts_from_the_recorded_time() {
    run(async {
        let (_guard, path) = fresh();
        fs::create_dir_all(&path).unwrap();
        let sent = turnwright_llm_stream::wire::chat::chat_body(&request()).unwrap();
        let head = json!({
            "turnwright_recording": 1, "format": "openai", "provider": "openai", "model": "m",
            "at": "2020-01-01T00:00:00Z", "request": serde_json::from_slice::<Value>(&sent).unwrap(),
            "answer": { "status": 429, "headers": { "retry-after": "Wed, 01 Jan 2020 00:00:09 GMT" },
                "after_ms": 2000, "bytes": 2, "masked": 0, "pieces": [[2000, 2]] },
            "ending": { "how": "end" },
        });
        fs::write(path.join("0001.json"), head.to_string()).unwrap();
        fs::write(path.join("0001.body"), "{}").unwrap();
        let error = ask(&replaying(&Replayer::open(&path).unwrap())).await.error.unwrap();
        assert_eq!(error.retry, RetryAdvice::After(Duration::from_secs(7)));
    });
}
