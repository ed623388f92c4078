//! What goes wrong on the wire, and what the client makes of it.

use std::time::Duration;

use futures::StreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use turnwright_core::{CancelCause, CancelToken, ErrorKind, RetryAdvice};
use turnwright_llm_stream::{EventStream, FinishReason, LlmClient, LlmEvent};
use turnwright_providers::{ChatClient, Timeouts};
use turnwright_testkit::provider::{Fault, ProviderServer, Reply};

use crate::support::{ask, builder, collect, context, request, run, server, short, stream};

fn reply() -> Reply {
    Reply::new().reasoning("hm").text("Hel").text("lo €").tool_call_in_fragments(
        "c1",
        "weather",
        r#"{"city":"Rome"}"#,
        5,
    )
}

/// What the client makes of each fault: a kind of error and how much text came, or a whole answer.
fn expected(fault: Fault) -> Result<(), (ErrorKind, &'static str)> {
    Err(match fault {
        _ if fault.is_harmless() => return Ok(()),
        Fault::Stall { .. } => (ErrorKind::IdleTimeout, "Hel"),
        Fault::EndWithoutTerminal { .. } | Fault::AbruptClose { .. } => (ErrorKind::Truncated, "Hel"),
        Fault::ErrorInStream { .. } => (ErrorKind::Server, "Hel"),
        Fault::GarbageLine { .. } => (ErrorKind::Decode, "Hel"),
        Fault::RateLimited { .. } => (ErrorKind::RateLimited, ""),
        Fault::ServerError => (ErrorKind::Server, ""),
        Fault::HtmlWithOk => (ErrorKind::UnexpectedContent, ""),
        Fault::JsonErrorWithOk => (ErrorKind::Authentication, ""),
        other => panic!("{other:?} is not covered"),
    })
}

/// The fault, after three events where it counts them: role, reasoning, text.
fn after_text(fault: Fault) -> Fault {
    match fault {
        Fault::Stall { .. } => Fault::Stall { after: 3 },
        Fault::EndWithoutTerminal { .. } => Fault::EndWithoutTerminal { after: 3 },
        Fault::AbruptClose { .. } => Fault::AbruptClose { after: 3 },
        Fault::ErrorInStream { .. } => Fault::ErrorInStream { after: 3 },
        Fault::GarbageLine { .. } => Fault::GarbageLine { after: 3 },
        other => other,
    }
}

#[test]
fn fault_e3_e5_e6_e8_e21_e23_every_fault_ends_in_its_own_outcome() {
    run(async {
        for fault in Fault::ALL.map(after_text) {
            let server = server(reply().fault(fault)).await;
            let response = ask(&builder(&server).build().unwrap()).await;
            match expected(fault) {
                Ok(()) => {
                    assert_eq!(response.error, None, "{fault:?}");
                    assert_eq!(response.finish_reason, Some(FinishReason::ToolCalls), "{fault:?}");
                    assert_eq!((response.text().as_str(), response.reasoning().as_str()), ("Hello €", "hm"));
                    let calls: Vec<_> = response.tool_calls().map(|c| c.arguments.as_str()).collect();
                    assert_eq!(calls, [r#"{"city":"Rome"}"#], "{fault:?}");
                    let has_usage =
                        !matches!(fault, Fault::MissingUsage | Fault::HeartbeatsAfterFinish { .. });
                    assert_eq!(response.usage.input_tokens, has_usage.then_some(10), "{fault:?}");
                }
                Err((kind, text)) => {
                    let error = response.error.clone().unwrap_or_else(|| panic!("{fault:?} is a success"));
                    assert_eq!((error.kind, response.text().as_str()), (kind, text), "{fault:?}: {error}");
                    assert_eq!(error.provider.as_deref(), Some("openai"));
                    assert_eq!(response.tool_calls().count(), 0, "{fault:?}");
                }
            }
            assert_eq!(server.request_count(), 1, "{fault:?}: a client never retries");
        }
    });
}

#[test]
fn fault_r7_98_the_status_and_its_retry_after_are_kept() {
    run(async {
        let server = server(reply().fault(Fault::RateLimited { retry_after: Duration::from_secs(7) })).await;
        let error = ask(&builder(&server).build().unwrap()).await.error.unwrap();
        assert_eq!((error.status, error.retry), (Some(429), RetryAdvice::After(Duration::from_secs(7))));
        assert_eq!(
            (error.code.as_deref(), error.message.as_str()),
            (Some("rate_limit_exceeded"), "slow down")
        );
    });
}

#[test]
fn a_good_answer_streams_as_it_comes() {
    run(async {
        let server = server(reply().delay(Duration::from_millis(5))).await;
        let response = ask(&builder(&server).build().unwrap()).await;
        assert_eq!((response.error.as_ref(), response.text().as_str()), (None, "Hello €"));
        assert_eq!(response.model.as_deref(), Some("scripted"));
    });
}

#[test]
fn connections_are_used_again() {
    run(async {
        let server = ProviderServer::start_repeating(reply()).await.unwrap();
        let client = builder(&server).build().unwrap();
        for _ in 0..20 {
            assert_eq!(ask(&client).await.error, None);
        }
        // Not all: where the end of a body is late, closing at once matters more.
        assert!(server.connection_count() < server.request_count(), "{}", server.connection_count());
    });
}

#[test]
fn fault_a4_dropping_the_stream_closes_the_connection() {
    run(async {
        let server = server(reply().fault(Fault::Stall { after: 3 })).await;
        let client = builder(&server).timeouts(Timeouts::default()).build().unwrap();
        let mut events = stream(&client);
        while let Some(event) = events.next().await {
            if matches!(event, LlmEvent::TextDelta { .. }) {
                break;
            }
        }
        assert_eq!(server.client_close_count(), 0);
        drop(events);
        server.wait_for_client_closes(1).await;
        // Before the first byte as well.
        let server = self::server(reply().fault(Fault::Stall { after: 0 })).await;
        let client = builder(&server).timeouts(Timeouts::default()).build().unwrap();
        let mut events = stream(&client);
        let waiting = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
        assert!(waiting.is_err());
        drop(events);
        server.wait_for_client_closes(1).await;
    });
}

#[test]
fn a_cancel_ends_a_silent_stream_at_once_and_closes_the_connection() {
    run(async {
        let server = server(reply().fault(Fault::Stall { after: 3 })).await;
        let client = builder(&server).timeouts(Timeouts::default()).build().unwrap();
        let token = CancelToken::new();
        let events = EventStream::provider(client.stream(&context(), &request()), &token, None);
        // Text was seen, so the stream is open; what follows is silence.
        let events = events.inspect(|event| {
            if matches!(event, LlmEvent::TextDelta { .. }) {
                token.cancel(CancelCause::requested("me"));
            }
        });
        let response = collect(events).await;
        assert_eq!(response.error.map(|e| e.kind), Some(ErrorKind::Cancelled));
        server.wait_for_client_closes(1).await;
    });
}

#[test]
fn fault_e7_the_end_mark_ends_the_stream_though_the_socket_stays_open() {
    run(async {
        // All events of a reply with one text: role, text, finish, usage, end mark.
        let server = server(Reply::new().text("a").fault(Fault::Stall { after: 5 })).await;
        let client = builder(&server).timeouts(Timeouts::default()).build().unwrap();
        let response = ask(&client).await;
        assert_eq!(
            (response.finish_reason, response.usage.output_tokens),
            (Some(FinishReason::Stop), Some(5))
        );
        server.wait_for_client_closes(1).await;
    });
}

#[test]
fn fault_e8_a_connection_that_breaks_after_the_finish_reason_loses_nothing() {
    run(async {
        let server = server(Reply::new().text("a").fault(Fault::AbruptClose { after: 3 })).await;
        let response = ask(&builder(&server).build().unwrap()).await;
        assert_eq!((response.finish_reason, response.error), (Some(FinishReason::Stop), None));
    });
}

#[test]
fn each_limit_has_its_own_kind() {
    run(async {
        let kind = async |reply: Reply, timeouts: Timeouts| {
            let server = server(reply).await;
            let response = ask(&builder(&server).timeouts(timeouts).build().unwrap()).await;
            server.wait_for_client_closes(1).await;
            response.error.map(|e| e.kind)
        };
        let silent = Reply::new().fault(Fault::Stall { after: 0 });
        assert_eq!(kind(silent, short()).await, Some(ErrorKind::FirstByteTimeout));
        let stalled = reply().fault(Fault::Stall { after: 1 });
        assert_eq!(kind(stalled, short()).await, Some(ErrorKind::IdleTimeout));
        let mut slow = Reply::new().delay(Duration::from_millis(50));
        for _ in 0..100 {
            slow = slow.text("a");
        }
        let total = Timeouts { total: Duration::from_millis(400), ..short() };
        assert_eq!(kind(slow, total).await, Some(ErrorKind::TotalTimeout));
    });
}

#[test]
fn fault_e5_comments_do_not_count_as_progress() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let client = ChatClient::builder().base_url(base_url).timeouts(short()).build().unwrap();
        let server = tokio::spawn(async move {
            for first in ["", "data: {\"choices\":[]}\n\n"] {
                let (mut socket, _) = listener.accept().await.unwrap();
                let _ = socket.read(&mut [0; 4096]).await.unwrap();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                socket.write_all(format!("{head}{first}").as_bytes()).await.unwrap();
                while socket.write_all(b": keep-alive\n\n").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        });
        for expected in [ErrorKind::FirstByteTimeout, ErrorKind::IdleTimeout] {
            assert_eq!(ask(&client).await.error.map(|e| e.kind), Some(expected));
        }
        server.await.unwrap();
    });
}

#[test]
fn no_server_and_a_server_that_does_not_answer_are_told_apart() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = Timeouts { connect: Duration::from_millis(200), ..short() };
        let client = |url: String| ChatClient::builder().base_url(url).timeouts(limits).build().unwrap();
        // Nobody shakes hands: the TLS handshake is part of connecting.
        let error = ask(&client(format!("https://{address}/v1"))).await.error.unwrap();
        assert_eq!(error.kind, ErrorKind::ConnectTimeout, "{error}");
        drop(listener);
        let error = ask(&client(format!("http://{address}/v1"))).await.error.unwrap();
        assert_eq!(error.kind, ErrorKind::Connection, "{error}");
        assert!(!error.message.contains("127.0.0.1"), "the address may hold what is not for logs: {error}");
    });
}

#[test]
fn a_client_without_limits_works() {
    run(async {
        let max = Duration::MAX;
        let endless = Timeouts { connect: max, first_byte: max, idle: max, total: max, drain: max };
        let server = server(reply()).await;
        let response = ask(&builder(&server).timeouts(endless).build().unwrap()).await;
        assert_eq!(response.error, None);
        let server = self::server(reply().fault(Fault::ServerError)).await;
        let response = ask(&builder(&server).timeouts(endless).build().unwrap()).await;
        assert_eq!(response.error.map(|e| e.kind), Some(ErrorKind::Server));
    });
}

#[test]
fn a_refusal_whose_body_stalls_is_reported_soon() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let client = ChatClient::builder().base_url(base_url).build().unwrap();
        let serve = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 4096]).await.unwrap();
            let refusal = "HTTP/1.1 429 T\r\ncontent-length: 99\r\nretry-after: 3\r\n\r\nslow";
            socket.write_all(refusal.as_bytes()).await.unwrap();
            // Until the client gives up, which it would only after two minutes if it waited for the body.
            let _ = socket.read(&mut [0; 16]).await;
        };
        let (response, ()) = futures::join!(ask(&client), serve);
        let error = response.error.unwrap();
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::RateLimited, "slow"));
        assert_eq!(error.retry, RetryAdvice::After(Duration::from_secs(3)));
    });
}
