//! Turns over a real socket: the runtime, the client and the hostile server together. Real time, short limits.

use std::time::Duration;

use futures::StreamExt;
use turnwright_core::{CancelCause, ErrorKind, Outcome, StopReason};
use turnwright_llm_stream::ModelHandle;
use turnwright_providers::{ChatClient, Timeouts};
use turnwright_react_runtime::{Agent, TurnEventKind, TurnHandle, tool::tool};
use turnwright_testkit::provider::{Fault, ProviderServer, Reply};

use crate::support::read;

fn agent(server: &ProviderServer) -> Agent {
    let short = Timeouts {
        first_byte: Duration::from_secs(2),
        idle: Duration::from_millis(300),
        drain: Duration::from_millis(200),
        ..Timeouts::default()
    };
    let client = ChatClient::builder().base_url(server.base_url()).timeouts(short).build().unwrap();
    Agent::builder("wire", ModelHandle::new(client, "local"))
        .tool(tool("look", "Looks", async |_ctx, (): ()| Ok("looked")).parallel())
        .build()
        .unwrap()
}

async fn until_text(handle: &mut TurnHandle) {
    while let Some(event) = handle.next().await {
        if matches!(event.kind, TurnEventKind::TextDelta { .. }) {
            return;
        }
    }
    panic!("no text came");
}

#[tokio::test]
async fn a_turn_with_two_parallel_tools_over_loopback_http() {
    let first =
        Reply::new().text("look ").tool_call("a", "look", "{}").tool_call("b", "look", "{}").usage(5, 7);
    let server = ProviderServer::start([
        first.finish("tool_calls"),
        Reply::new().text("done").usage(9, 1).finish("stop"),
    ])
    .await
    .unwrap();
    let agent = agent(&server);
    let session = agent.new_session();
    let ran = read(&session, session.start("hi").unwrap()).await;
    assert_eq!((ran.result().content.as_str(), ran.result().usage.input_tokens), ("done", Some(14)));
    let second = server.requests()[1].json();
    let roles: Vec<_> = second["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool"], "fault B16: the provider's order");
}

#[tokio::test]
async fn fault_a4_a14_every_way_of_stopping_closes_the_body() {
    for how in ["cancel", "cancel twice", "interrupt", "drop"] {
        let server =
            ProviderServer::start([Reply::new().text("Hel").text("lo").fault(Fault::Stall { after: 2 })])
                .await
                .unwrap();
        let agent = agent(&server);
        let session = agent.new_session();
        let mut handle = session.start("hi").unwrap();
        until_text(&mut handle).await;
        let user = || CancelCause::requested("user");
        match how {
            "cancel" => drop(handle.cancel(user())),
            "cancel twice" => {
                handle.cancel(user());
                handle.interrupt(user());
            }
            "interrupt" => drop(handle.interrupt(user())),
            _ => {}
        }
        if how == "drop" {
            drop(handle);
        } else {
            assert_eq!(handle.outcome().await.outcome(), Outcome::Cancelled, "{how}");
        }
        let closed = tokio::time::timeout(Duration::from_secs(2), server.wait_for_client_closes(1)).await;
        assert!(closed.is_ok(), "{how}: the server sees the body closed");
        while session.is_busy() {
            tokio::task::yield_now().await;
        }
        let last = session.messages().last().unwrap().clone();
        assert!(last.text().starts_with("Hel") && last.interrupted.is_some(), "{how}: {last:?}");
    }
}

#[tokio::test]
async fn every_fault_of_the_wire_is_one_honest_ending() {
    for fault in Fault::ALL {
        let reply = Reply::new().text("Hel").text("lo").usage(3, 2).finish("stop").fault(fault);
        let server = ProviderServer::start([reply]).await.unwrap();
        let agent = agent(&server);
        let session = agent.new_session();
        let ran = read(&session, session.start("hi").unwrap()).await;
        let result = ran.result();
        let expected = if fault.is_harmless() { StopReason::Completed } else { StopReason::Error };
        assert_eq!(result.stop_reason, expected, "{fault:?}: {result:?}");
        assert_eq!(server.request_count(), 1, "{fault:?}: clients never retry");
        let kind = result.error.as_ref().map(|e| e.kind);
        match fault {
            Fault::RateLimited { .. } => assert_eq!(kind, Some(ErrorKind::RateLimited)),
            Fault::ServerError => assert_eq!(kind, Some(ErrorKind::Server)),
            Fault::HtmlWithOk => assert_eq!(kind, Some(ErrorKind::UnexpectedContent)),
            Fault::GarbageLine { .. } => assert_eq!(kind, Some(ErrorKind::Decode)),
            Fault::Stall { .. } => assert_eq!(kind, Some(ErrorKind::IdleTimeout)),
            Fault::EndWithoutTerminal { .. } | Fault::AbruptClose { .. } => {
                assert_eq!(kind, Some(ErrorKind::Truncated));
            }
            _ if fault.is_harmless() => assert_eq!(result.content, "Hello", "{fault:?}"),
            _ => assert!(kind.is_some(), "{fault:?}"),
        }
        // Fault R1.32: no provider failure is reported as a success, and the next turn of the session works.
        let next = read(&session, session.start("again").unwrap()).await;
        assert_eq!(next.result().error.as_ref().unwrap().status, Some(500), "the script is over");
    }
}
