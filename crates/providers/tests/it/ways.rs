//! Ways to a server: keys from files and commands, a proxy, a certificate of its own, a limit of calls at once.

use std::{path::PathBuf, sync::Arc};

use futures::StreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};
use turnwright_core::ErrorKind;
use turnwright_llm_stream::LlmEvent;
use turnwright_providers::ChatClient;
use turnwright_testkit::provider::{ProviderServer, Reply};

use crate::support::{ask, builder, run, short, stream};

/// A file of this test's own, removed at its end.
struct OwnFile(PathBuf);

impl OwnFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("turnwright-ways-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_key_in_a_file_goes_out_as_it_is_now_and_a_missing_one_is_an_error() {
    run(async {
        let server = ProviderServer::start_repeating(Reply::new().text("a")).await.unwrap();
        let file = OwnFile::new("key", "first-key-0123\n");
        let client = builder(&server).api_key_file(&file.0).build().unwrap();
        ask(&client).await;
        std::fs::write(&file.0, "second-key-0123").unwrap();
        ask(&client).await;
        drop(file);
        let error = ask(&client).await.error.unwrap();
        assert_eq!(error.kind, ErrorKind::Configuration);
        let keys: Vec<_> =
            server.requests().iter().map(|r| r.header("authorization").unwrap().to_owned()).collect();
        assert_eq!(keys, ["Bearer first-key-0123", "Bearer second-key-0123"]);
        let own = builder(&server).api_key_command("false", [""; 0]).header("authorization", "mine");
        let error = ask(&own.build().unwrap()).await.error.unwrap();
        assert!(error.message.contains("failed with"), "{error}");
    });
}

/// Answers with these, a connection each, and gives the heads of the requests.
async fn serve(listener: &TcpListener, answers: &[String]) -> Vec<String> {
    let mut heads = Vec::new();
    for answer in answers {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut sent = Vec::new();
        while !sent.windows(4).any(|end| end == b"\r\n\r\n") {
            socket.read_buf(&mut sent).await.unwrap();
        }
        heads.push(String::from_utf8_lossy(&sent).into_owned());
        socket.write_all(answer.as_bytes()).await.unwrap();
        socket.shutdown().await.unwrap();
    }
    heads
}

const DONE: &str =
    "HTTP/1.1 200 O\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: [DONE]\n\n";

#[cfg(unix)]
#[test]
fn a_key_that_a_command_printed_is_in_no_error_and_is_not_used_again_once_it_was_refused() {
    for (status, kind) in [(401, ErrorKind::Authentication), (403, ErrorKind::PermissionDenied)] {
        run(refused_once(status, kind));
    }
}

#[cfg(unix)]
async fn refused_once(status: u16, kind: ErrorKind) {
    let count = OwnFile::new("count", "");
    let script = format!("echo x >> '{0}'; echo printed-key-$(wc -l < '{0}')", count.0.display());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = ChatClient::builder()
        .base_url(format!("http://{}/v1", listener.local_addr().unwrap()))
        .api_key_command("sh", ["-c", &script])
        .timeouts(short())
        .build()
        .unwrap();
    let body = r#"{"error":{"message":"no such key: printed-key-1"}}"#;
    let refusal = format!(
        "HTTP/1.1 {status} U\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answers = [DONE.to_owned(), refusal, DONE.to_owned()];
    let asked = async {
        ask(&client).await;
        let error = ask(&client).await.error.unwrap();
        ask(&client).await;
        error
    };
    let (error, heads) = futures::join!(asked, serve(&listener, &answers));
    assert_eq!(error.kind, kind);
    assert!(!format!("{error:?}").contains("printed-key"), "{error:?}");
    for (head, key) in heads.iter().zip(["printed-key-1", "printed-key-1", "printed-key-2"]) {
        assert!(head.contains(&format!("authorization: Bearer {key}\r\n")), "{head}");
    }
}

#[test]
fn a_proxy_that_is_named_is_asked_for_everything() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = |base_url: &str, proxy: &str| {
            ChatClient::builder().base_url(base_url).proxy(proxy).timeouts(short()).build()
        };
        let far = client("http://far.invalid/v1", &format!("http://me:hush-hush@{address}")).unwrap();
        let answers = [DONE.to_owned()];
        let (response, heads) = futures::join!(ask(&far), serve(&listener, &answers));
        assert_eq!(response.error, None);
        assert!(
            heads[0].starts_with("POST http://far.invalid/v1/chat/completions HTTP/1.1\r\n"),
            "{heads:?}"
        );
        assert!(heads[0].contains("proxy-authorization: Basic"), "{heads:?}");
        // What the HTTP client cannot use it passes over, and asks the server directly.
        for wrong in ["http://me:hush hush@[", "", "garbage://me:hush@h:1", "socks5://me:hush@h:1", "http://"]
        {
            let error = client("http://far.invalid/v1", wrong).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Configuration);
            assert!(error.message.contains("proxy") && !error.message.contains("hush"), "{error}");
        }
        assert!(client("http://far.invalid/v1", "proxy:3128").is_ok());
        assert!(!format!("{far:?}").contains("hush"));
    });
}

#[test]
fn a_server_with_a_certificate_of_its_own_is_trusted_once_that_is_named() {
    run(async {
        // Valid for a hundred years; the key that signed it was thrown away.
        let root = include_bytes!("tls/ca.pem");
        let certificate = CertificateDer::from_pem_slice(include_bytes!("tls/server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/server.key.pem")).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
        let client = || ChatClient::builder().base_url(&base_url).timeouts(short());
        let answer = async {
            for _ in 0..2 {
                let (socket, _) = listener.accept().await.unwrap();
                let Ok(mut socket) = acceptor.accept(socket).await else { continue };
                let _ = socket.read(&mut [0; 4096]).await.unwrap();
                socket.write_all(DONE.as_bytes()).await.unwrap();
                socket.shutdown().await.unwrap();
            }
        };
        let asked = async {
            let stranger = ask(&client().build().unwrap()).await.error.unwrap();
            let trusted = client().root_certificates(root).build().unwrap();
            (stranger, ask(&trusted).await.error)
        };
        let ((stranger, trusted), ()) = futures::join!(asked, answer);
        assert_eq!(stranger.kind, ErrorKind::Connection, "{stranger}");
        assert_eq!(trusted, None);
        let error = client().root_certificates("no certificate").build().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration);
    });
}

#[test]
fn no_more_calls_than_allowed_run_at_once_and_one_that_is_dropped_makes_room() {
    run(async {
        let server = ProviderServer::start_repeating(Reply::new().text("a").text("b")).await.unwrap();
        let client = builder(&server).max_concurrent_calls(2).build().unwrap();
        let (mut one, mut two) = (stream(&client), stream(&client));
        for held in [&mut one, &mut two] {
            assert!(matches!(held.next().await, Some(LlmEvent::TextDelta { .. })));
        }
        let mut third = Box::pin(ask(&client));
        assert!(futures::poll!(&mut third).is_pending());
        assert_eq!(server.request_count(), 2);
        drop(one);
        assert_eq!(third.await.text(), "ab");
        // An answer that ended makes room too, though its stream is still held.
        while two.next().await.is_some() {}
        let (last, also) = futures::join!(ask(&client), ask(&client));
        assert_eq!((last.error, also.error), (None, None));
        assert_eq!(server.request_count(), 5);
        let error = builder(&server).max_concurrent_calls(0).build().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration);
    });
}

#[test]
fn a_call_that_gets_no_slot_says_so_in_time() {
    run(async {
        let server = ProviderServer::start_repeating(Reply::new().text("a").text("b")).await.unwrap();
        let total = std::time::Duration::from_millis(200);
        let limits = turnwright_providers::Timeouts { total, ..short() };
        let client = builder(&server).max_concurrent_calls(1).timeouts(limits).build().unwrap();
        let mut held = stream(&client);
        assert!(held.next().await.is_some());
        let error = ask(&client).await.error.unwrap();
        assert_eq!(error.kind, ErrorKind::TotalTimeout);
        assert!(error.message.contains("at once"), "{error}");
        drop(held);
    });
}
