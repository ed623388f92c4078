//! What a call waits for before it is sent counts too.

use std::time::Duration;

use futures::StreamExt;
use turnwright_core::ErrorKind;
use turnwright_providers::Timeouts;
use turnwright_testkit::provider::{ProviderServer, Reply};

use crate::support::{ask, builder, run, short, stream};

#[cfg(unix)]
#[test]
fn the_limit_of_the_whole_call_is_kept_while_a_command_thinks_of_the_key() {
    run(async {
        let server = ProviderServer::start_repeating(Reply::new().text("a")).await.unwrap();
        let limits = Timeouts { total: Duration::from_millis(300), ..short() };
        let slow = builder(&server).api_key_command("sleep", ["60"]).timeouts(limits).build().unwrap();
        // The second one waits for the command of the first one.
        let (one, other) = futures::join!(ask(&slow), ask(&slow));
        for error in [one.error.unwrap(), other.error.unwrap()] {
            assert_eq!(error.kind, ErrorKind::TotalTimeout, "{error}");
            assert!(error.message.contains("the API key"), "{error}");
        }
        assert_eq!(server.request_count(), 0);
    });
}

#[test]
fn the_wait_for_a_turn_counts_for_the_whole_call_and_not_for_the_first_byte() {
    run(async {
        let slow = Reply::new().text("a").text("b").delay(Duration::from_millis(400));
        let server = ProviderServer::start_repeating(slow).await.unwrap();
        let limits = |first_byte, total| Timeouts {
            first_byte: Duration::from_millis(first_byte),
            idle: Duration::from_secs(5),
            total: Duration::from_millis(total),
            ..short()
        };
        // The second call waits for longer than its first byte may take, and gets it at once.
        let client = builder(&server).max_concurrent_calls(1).timeouts(limits(1200, 15_000)).build().unwrap();
        let (one, other) = futures::join!(ask(&client), ask(&client));
        assert_eq!((one.error, other.error), (None, None));
        // It waits for most of its time, and what is left is too short for the answer.
        let client = builder(&server).max_concurrent_calls(1).timeouts(limits(5000, 1800)).build().unwrap();
        let mut first = stream(&client);
        assert!(first.next().await.is_some());
        let (_, other) = futures::join!(first.collect::<Vec<_>>(), ask(&client));
        assert_eq!(other.error.unwrap().kind, ErrorKind::TotalTimeout);
    });
}
