//! Bodies that a proxy compressed though nobody asked for it.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use turnwright_core::{ErrorInfo, ErrorKind};
use turnwright_llm_stream::LlmResponse;
use turnwright_providers::{ChatClient, Recorder, Recording, Replayer};

use crate::{
    recording::{fresh, replaying},
    support::{ask, run, short},
};

/// No body that is compressed is read, so any bytes do.
const BODY: &str = "\u{1f}\u{fffd}no text";

/// What a client makes of this answer, recorded and replayed, and the head of its request.
async fn ask_both(status: &str, encoding: &str, body: &str) -> (LlmResponse, LlmResponse, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (_guard, directory) = fresh();
    let client = ChatClient::builder()
        .base_url(format!("http://{}/v1", listener.local_addr().unwrap()))
        .timeouts(short())
        .record(&Recorder::open(&directory).unwrap())
        .build()
        .unwrap();
    let answer = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut sent = Vec::new();
        while !sent.windows(4).any(|end| end == b"\r\n\r\n") {
            socket.read_buf(&mut sent).await.unwrap();
        }
        let head = format!(
            "HTTP/1.1 {status} S\r\ncontent-type: text/event-stream\r\ncontent-encoding: {encoding}\r\nconnection: close\r\n\r\n"
        );
        socket.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await.unwrap();
        socket.shutdown().await.unwrap();
        String::from_utf8_lossy(&sent).into_owned()
    };
    let (response, sent) = futures::join!(ask(&client), answer);
    let recording = Recording::of(&directory.join("0001.json")).unwrap().unwrap();
    let is_wrong = |error: &ErrorInfo| error.kind == ErrorKind::UnexpectedContent;
    let wrong = response.error.as_ref().filter(|error| is_wrong(error));
    assert_eq!(recording.no_answer(), wrong, "who reads the recording learns why too");
    let replayed = ask(&replaying(&Replayer::open(&directory).unwrap())).await;
    (response, replayed, sent)
}

#[test]
fn a_compressed_answer_is_said_to_be_one() {
    run(async {
        let (response, replayed, sent) = ask_both("200", "gzip", BODY).await;
        assert!(sent.contains("accept-encoding: identity\r\n"), "{sent}");
        let error = response.error.unwrap();
        assert_eq!(error.kind, ErrorKind::UnexpectedContent, "{error}");
        assert!(error.message.contains("compressed") && !error.is_retryable(), "{error}");
        assert_eq!(replayed.error, Some(error));
    });
}

#[test]
fn a_compressed_refusal_is_known_by_its_status_and_a_plain_body_is_read() {
    run(async {
        let (response, replayed, _) = ask_both("429", "identity, br", BODY).await;
        let error = response.error.unwrap();
        assert_eq!(error.kind, ErrorKind::RateLimited, "{error}");
        assert!(!error.message.contains("no text"), "{error}");
        assert_eq!(replayed.error, Some(error));
        let plain = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let (response, replayed, _) = ask_both("200", "Identity", plain).await;
        assert_eq!((response.error.as_ref(), response.text().as_str()), (None, "a"));
        assert_eq!(replayed.text(), "a");
    });
}
