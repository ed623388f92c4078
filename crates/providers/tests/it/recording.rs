//! Exchanges written down, and replayed without a server.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use turnwright_core::{
    ErrorKind, RetryAdvice,
    clock::{Clock, SystemClock},
};
use turnwright_llm_stream::{LlmClient, LlmEvent, LlmRequest, StreamItem};
use turnwright_providers::{ChatClient, Recorder, Recording, Replayer, ResponsesClient};
use turnwright_testkit::provider::{Fault, ProviderServer, Reply};

use crate::support::{ask, builder, collect, context, request, run, server, short, stream};

fn replaying(replayer: &Replayer) -> ChatClient {
    // Where nothing listens, and with other limits than were recorded.
    ChatClient::builder().base_url("http://127.0.0.1:9/v1").replay(replayer).build().unwrap()
}

fn head(directory: &Path, number: u32) -> Value {
    serde_json::from_slice(&fs::read(directory.join(format!("{number:04}.json"))).unwrap()).unwrap()
}

fn body(directory: &Path, number: u32) -> String {
    fs::read_to_string(directory.join(format!("{number:04}.body"))).unwrap()
}

fn files(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn fresh() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    // It need not be there.
    let path = directory.path().join("a/b");
    (directory, path)
}

fn reply() -> Reply {
    Reply::new().reasoning("hm").text("Hel").text("lo €").tool_call_in_fragments(
        "c1",
        "weather",
        r#"{"city":"Rome"}"#,
        5,
    )
}

fn saying(text: &str) -> LlmRequest {
    let message = turnwright_core::Message::user(context().sources().id(), text);
    LlmRequest { messages: vec![std::sync::Arc::new(message)], ..request() }
}

async fn items(client: &ChatClient, request: &LlmRequest) -> Vec<StreamItem> {
    client.stream(&context(), request).collect().await
}

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
fn the_head_says_what_was_asked_and_the_body_is_what_came() {
    run(async {
        let (_guard, path) = fresh();
        let server = server(Reply::new().text("a").text("b")).await;
        let recorder = Recorder::open(&path).unwrap();
        let client = builder(&server).provider("mine").record(&recorder).build().unwrap();
        assert_eq!(ask(&client).await.text(), "ab");
        let head = head(&path, 1);
        assert_eq!(head["turnwright_recording"], 1);
        assert_eq!(
            (&head["format"], &head["provider"], &head["model"]),
            (&json!("openai"), &json!("mine"), &json!("m"))
        );
        assert_eq!(head["request"]["messages"], json!([{ "role": "user", "content": "hi" }]));
        assert_eq!(head["answer"]["headers"], json!({ "content-type": "text/event-stream" }));
        let pieces = head["answer"]["pieces"].as_array().unwrap();
        assert_eq!(
            pieces.iter().map(|piece| piece[1].as_u64().unwrap()).sum::<u64>(),
            head["answer"]["bytes"]
        );
        assert!(body(&path, 1).starts_with("data: {") && body(&path, 1).contains("[DONE]"));

        let recording = Recording::of(&path.join("0001.body")).unwrap().unwrap();
        assert_eq!((recording.format(), recording.model(), recording.status()), ("openai", "m", Some(200)));
        assert_eq!(recording.body(), path.join("0001.body"));
        assert!(Recording::of(&path.join("0002.json")).unwrap().is_none());

        #[cfg(unix)]
        for file in ["0001.json", "0001.body"] {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(path.join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{file}: a conversation is its owner's");
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
        drop(events);
        assert_eq!(head(&path, 1)["ending"]["how"], "dropped");
        assert!(body(&path, 1).contains("Hel"));
        let replayed = ask(&replaying(&Replayer::open(&path).unwrap())).await;
        let error = replayed.error.as_ref().unwrap();
        assert_eq!((replayed.text().as_str(), error.kind), ("Hel", ErrorKind::Truncated));
        assert!(error.message.contains("where its caller stopped reading"), "{error}");
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
fn no_secret_is_in_any_file_though_prompt_and_server_repeat_it() {
    run(async {
        let key = "sk-0123456789";
        let said = format!("the key is {key}, the token hush/hush+hush==");
        let (_guard, path) = fresh();
        let recorder = Recorder::open(&path).unwrap();
        let server =
            ProviderServer::start([Reply::new().text(&said).fault(Fault::SevenByteSplits)]).await.unwrap();
        let client =
            builder(&server).header("x-token", "hush/hush+hush==").record(&recorder).build().unwrap();
        let recorded = items(&client, &saying(&said)).await;
        assert!(format!("{recorded:?}").contains(&said), "the turn itself sees what came");

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let refused =
            ChatClient::builder().base_url(base_url).api_key(key).timeouts(short()).record(&recorder);
        let refused = refused.build().unwrap();
        let serve = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 4096]).await.unwrap();
            let error = format!(r#"{{"error":{{"message":"no such key: {key}"}}}}"#);
            let head = format!(
                "HTTP/1.1 401 U\r\ncontent-type: application/json\r\nset-cookie: a=b\r\nx-request-id: r-{key}\r\n\r\n{error}"
            );
            socket.write_all(head.as_bytes()).await.unwrap();
            socket.shutdown().await.unwrap();
        };
        let (response, ()) = futures::join!(ask(&refused), serve);
        assert_eq!(response.error.unwrap().kind, ErrorKind::Authentication);

        for file in files(&path) {
            let text = fs::read_to_string(path.join(&file)).unwrap();
            for secret in ["0123456789", "hush/hush", "set-cookie", "authorization", "Bearer"] {
                assert!(!text.to_lowercase().contains(&secret.to_lowercase()), "{file}: {text}");
            }
        }
        assert_eq!(head(&path, 1)["answer"]["masked"], 2);
        assert_eq!(head(&path, 2)["answer"]["headers"]["x-request-id"], "r-*************");

        // With the same keys the same request is found again; the answer has asterisks in their place.
        let replayer = Replayer::open(&path).unwrap();
        let client =
            ChatClient::builder().api_key(key).header("x-token", "hush/hush+hush==").replay(&replayer);
        let replayed = items(&client.build().unwrap(), &saying(&said)).await;
        assert_eq!(replayed.len(), recorded.len());
        assert!(
            format!("{replayed:?}").contains("the key is *************, the token ****************"),
            "{replayed:?}"
        );
    });
}

#[test]
fn recordings_are_added_to_and_never_overwritten() {
    run(async {
        let (_guard, path) = fresh();
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("0007.body"), "mine").unwrap();
        fs::write(path.join("notes.json"), "{}").unwrap();
        let server = ProviderServer::start_repeating(reply()).await.unwrap();
        // Two that know nothing of each other.
        for recorder in [Recorder::open(&path).unwrap(), Recorder::open(&path).unwrap()] {
            let client = builder(&server).record(&recorder).build().unwrap();
            ask(&client).await;
            assert_eq!(recorder.failure(), None);
        }
        assert_eq!(
            files(&path),
            ["0007.body", "0008.body", "0008.json", "0009.body", "0009.json", "notes.json"]
        );
        assert_eq!(body(&path, 7), "mine");
    });
}

#[test]
fn a_directory_that_is_of_no_use_is_refused_when_it_is_opened() {
    let (guard, path) = fresh();
    let file = guard.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Recorder::open(&file).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Configuration);
    assert!(error.message.contains("cannot be recorded into"), "{error}");
    let error = Replayer::open(&path).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Configuration, "{error}");
    fs::create_dir_all(&path).unwrap();
    assert!(Replayer::open(&path).unwrap_err().message.contains("it has no recording"));

    let recorder = Recorder::open(&path).unwrap();
    for (head, kind) in [
        (r#"{"turnwright_recording":1,"format":"openai"}"#, ErrorKind::Corrupt),
        (r#"{"turnwright_recording":2}"#, ErrorKind::UnsupportedVersion),
    ] {
        fs::write(path.join("0001.json"), head).unwrap();
        assert_eq!(Replayer::open(&path).unwrap_err().kind, kind);
        assert_eq!(Recording::of(&path.join("0001.json")).unwrap_err().kind, kind);
    }
    let whole = r#"{"turnwright_recording":1,"format":"openai","provider":"p","model":"m","at":"2026-01-01T00:00:00Z","request":{},"ending":{"how":"dropped"}}"#;
    fs::write(path.join("0001.json"), whole).unwrap();
    let replayer = Replayer::open(&path).unwrap();
    let error = ResponsesClient::builder().replay(&replayer).build().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Configuration);
    assert!(error.message.ends_with("another format: openai, and this is openai-responses"), "{error}");
    let error = ChatClient::builder().replay(&replayer).record(&recorder).build().unwrap_err();
    assert!(error.message.contains("either records or replays"), "{error}");
}

#[test]
fn a_failure_to_write_breaks_no_call_and_is_told() {
    run(async {
        let (_guard, path) = fresh();
        let server = ProviderServer::start_repeating(reply()).await.unwrap();
        let recorder = Recorder::open(&path).unwrap();
        let client = builder(&server).record(&recorder).build().unwrap();
        fs::remove_dir_all(&path).unwrap();
        assert_eq!(ask(&client).await.error, None);
        let failure = recorder.failure().unwrap();
        assert_eq!(failure.kind, ErrorKind::Store);
        assert!(failure.message.contains("is not recorded"), "{failure}");
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

#[cfg(unix)]
#[test]
fn a_key_of_a_command_is_in_no_file_and_is_not_fetched_to_replay() {
    run(async {
        let (_guard, path) = fresh();
        let recorder = Recorder::open(&path).unwrap();
        let server = server(Reply::new().text("you are sk-fetched-987654")).await;
        let client = ChatClient::builder().base_url(server.base_url()).timeouts(short()).record(&recorder);
        let client = client.api_key_command("sh", ["-c", "echo sk-fetched-987654"]).build().unwrap();
        assert!(ask(&client).await.text().contains("sk-fetched"));
        assert_eq!(server.requests()[0].header("authorization"), Some("Bearer sk-fetched-987654"));
        assert!(body(&path, 1).contains("you are *****************\""), "{}", body(&path, 1));
        let client = ChatClient::builder().replay(&Replayer::open(&path).unwrap());
        let client = client.api_key_command("sh", ["-c", "exit 1"]).build().unwrap();
        assert_eq!(ask(&client).await.text(), "you are *****************");
    });
}
