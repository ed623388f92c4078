//! What the client sends, and what it must not send or repeat.

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use turnwright_core::ErrorKind;
use turnwright_llm_stream::{LlmClient, wire::chat::chat_body};
use turnwright_providers::ChatClient;
use turnwright_testkit::provider::Reply;

use crate::support::{ask, builder, request, run, server, short};

#[test]
fn the_request_carries_body_key_and_headers() {
    run(async {
        let server = server(Reply::new().text("a")).await;
        let client = builder(&server).header("X-Team", "blue").provider("mine").build().unwrap();
        assert_eq!(client.provider(), "mine");
        ask(&client).await;
        let sent = server.requests().remove(0);
        assert_eq!(sent.header("authorization"), Some("Bearer sk-0123456789"));
        assert_eq!((sent.header("x-team"), sent.header("accept")), (Some("blue"), Some("text/event-stream")));
        assert_eq!(sent.header("content-type"), Some("application/json"));
        assert_eq!(sent.body, chat_body(&request()).unwrap());
        assert_eq!(sent.json()["messages"], json!([{ "role": "user", "content": "hi" }]));
    });
}

#[test]
fn a_wrong_path_is_not_found() {
    run(async {
        let server = server(Reply::new()).await;
        let client = builder(&server).base_url(format!("{}/nowhere", server.base_url())).build().unwrap();
        let error = ask(&client).await.error.unwrap();
        assert_eq!((error.kind, error.status), (ErrorKind::NotFound, Some(404)), "{error}");
    });
}

/// Answers one request with these bytes.
async fn answer(response: &str) -> Result<(), turnwright_core::ErrorInfo> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let client =
        ChatClient::builder().base_url(base_url).api_key("sk-0123456789").timeouts(short()).build().unwrap();
    let serve = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = [0; 4096];
        let _ = socket.read(&mut head).await.unwrap();
        socket.write_all(response.as_bytes()).await.unwrap();
        socket.shutdown().await.unwrap();
    };
    let (response, ()) = futures::join!(ask(&client), serve);
    response.error.map_or(Ok(()), Err)
}

#[test]
fn a_redirect_is_not_followed_and_says_where_it_points() {
    run(async {
        let redirect =
            "HTTP/1.1 307 T\r\nlocation: https://elsewhere.test/x?token=hush\r\ncontent-length: 0\r\n\r\n";
        let error = answer(redirect).await.unwrap_err();
        assert_eq!((error.kind, error.status), (ErrorKind::UnexpectedContent, Some(307)));
        assert!(error.message.contains("https://elsewhere.test,"), "{error}");
        assert!(!error.message.contains("hush"), "{error}");
    });
}

#[test]
fn the_key_is_in_no_error_though_the_server_repeats_it() {
    run(async {
        let body = r#"{"error":{"message":"no such key: 'sk-0123456789'","code":"sk-0123456789"}}"#;
        let refusal = format!(
            "HTTP/1.1 401 U\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let error = answer(&refusal).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Authentication);
        assert!(!format!("{error:?}").contains("0123456789"), "{error:?}");
        let stream = format!("HTTP/1.1 200 O\r\ncontent-type: text/event-stream\r\n\r\ndata: {body}\n\n");
        let error = answer(&stream).await.unwrap_err();
        assert!(!format!("{error:?}").contains("0123456789"), "{error:?}");
    });
}

#[test]
fn fault_e23_the_content_type_is_checked() {
    run(async {
        let with_type = |content_type: &str| {
            format!("HTTP/1.1 200 O\r\ncontent-type: {content_type}\r\n\r\ndata: [DONE]\n\n")
        };
        for good in ["text/event-stream; charset=utf-8", "application/json", "Text/Plain"] {
            assert_eq!(answer(&with_type(good)).await, Ok(()), "{good}");
        }
        for bad in ["text/html", "image/png"] {
            let error = answer(&with_type(bad)).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::UnexpectedContent, "{bad}");
        }
        let endless = format!("HTTP/1.1 500 E\r\n\r\n{}", "x".repeat(300_000));
        let error = answer(&endless).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Server);
        assert!(error.message.len() < 600);
    });
}

#[test]
fn no_word_of_a_header_is_in_an_error_however_the_server_spells_it() {
    run(async {
        for (status, content_type) in
            [("401 U", "application/json"), ("429 T", "text/plain"), ("200 O", "text/event-stream")]
        {
            for body in [
                r#"{"error":{"message":"no such token: 'zzz/0123+456==' ","code":"zzz/0123+456=="}}"#
                    .to_owned(),
                r#"{"error":{"message":"no such token: zzz\/0123\u002b456=="}}"#.to_owned(),
                format!(r#"{{"error":{{"message":"{} zzz/0123+456=="}}}}"#, "x".repeat(492)),
                // Cut in the midst of it.
                "no such token: zzz/0123".to_owned(),
            ] {
                let lead = if status.starts_with("200") { "event: error\ndata: " } else { "" };
                let head = format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n\r\n");
                let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let client = ChatClient::builder()
                    .base_url(format!("http://{}/v1", server.local_addr().unwrap()))
                    .header("Authorization", "Token zzz/0123+456==")
                    .timeouts(short())
                    .build()
                    .unwrap();
                let serve = async {
                    let (mut socket, _) = server.accept().await.unwrap();
                    let _ = socket.read(&mut [0; 4096]).await.unwrap();
                    socket.write_all(format!("{head}{lead}{body}").as_bytes()).await.unwrap();
                    socket.shutdown().await.unwrap();
                };
                let (response, ()) = futures::join!(ask(&client), serve);
                let error = response.error.unwrap();
                assert!(!format!("{error:?}").contains("zzz"), "{status}: {error:?}");
            }
        }
    });
}
