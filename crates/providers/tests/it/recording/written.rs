//! What is in the files, and what is not.

use std::fs;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use turnwright_core::ErrorKind;
use turnwright_providers::{ChatClient, Recorder, Recording, Replayer, ResponsesClient};
use turnwright_testkit::provider::{Fault, ProviderServer, Reply};

use super::{body, files, fresh, head, items, replaying, reply, saying};
use crate::support::{ask, builder, run, server, short};

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
fn a_file_with_the_last_of_all_numbers_ends_no_recording() {
    run(async {
        let (_guard, path) = fresh();
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(format!("{}.json", u64::MAX - 1)), "{}").unwrap();
        let server = server(Reply::new().text("a")).await;
        let client = builder(&server).record(&Recorder::open(&path).unwrap()).build().unwrap();
        assert_eq!(ask(&client).await.text(), "a");
        assert_eq!(files(&path)[..2], ["0001.body", "0001.json"]);
    });
}

#[test]
fn a_header_that_is_no_secret_is_left_where_an_answer_repeats_it() {
    run(async {
        let (_guard, path) = fresh();
        let server = server(Reply::new().text("a")).await;
        let client =
            builder(&server).header("accept", "text/event-stream").header("x-token", "hush-hush-hush");
        let client = client.record(&Recorder::open(&path).unwrap()).build().unwrap();
        assert_eq!(ask(&client).await.text(), "a");
        assert_eq!(head(&path, 1)["answer"]["headers"]["content-type"], "text/event-stream");
        let replayed = ask(&replaying(&Replayer::open(&path).unwrap())).await;
        assert_eq!((replayed.error.as_ref(), replayed.text().as_str()), (None, "a"));
    });
}
