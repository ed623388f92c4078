//! Connections that a server closed while nobody used them.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use turnwright_providers::ChatClient;

use crate::support::{ask, run, short};

const BODY: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

#[test]
fn a_connection_that_was_closed_after_an_answer_fails_no_call() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let client = ChatClient::builder().base_url(base_url).timeouts(short()).build().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut sent = Vec::new();
                // What a test asks ends so.
                while !sent.ends_with(b"}") {
                    socket.read_buf(&mut sent).await.unwrap();
                }
                // It promises to keep the connection, and closes it.
                let length = BODY.len();
                let head =
                    format!("HTTP/1.1 200 O\r\ncontent-type: text/event-stream\r\ncontent-length: {length}");
                socket.write_all(format!("{head}\r\n\r\n{BODY}").as_bytes()).await.unwrap();
            }
        });
        for _ in 0..100 {
            assert_eq!(ask(&client).await.error, None);
        }
    });
}
