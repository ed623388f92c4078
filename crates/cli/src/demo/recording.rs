//! The recorded model: bytes of ours, served over loopback HTTP. The client and the decoder are the real ones.

use std::{io, time::Duration};

use turnwright::testkit::provider::{ProviderServer, Reply};

/// Each word comes by itself, so that the text can be seen to stream.
const PAUSE: Duration = Duration::from_millis(30);

/// What the model says before it looks. True whatever there is to see.
const FIRST: &str = "I will look at the directory and at the clock, both at once.";
/// What it says after. It cannot know what the tools found, so it does not say.
const LAST: &str = "The listing and the time above are real: two tools ran side by\n\
    side in your directory. Only these sentences were recorded.";

pub(super) async fn serve() -> io::Result<ProviderServer> {
    let first = words(FIRST)
        .tool_call_in_fragments("call-1", "list_dir", r#"{"path":"."}"#, 6)
        .tool_call("call-2", "current_time", "{}")
        .usage(412, 46);
    ProviderServer::start([first, words(LAST).usage(655, 38)]).await
}

fn words(text: &str) -> Reply {
    let reply = Reply::new().delay(PAUSE);
    text.split_inclusive([' ', '\n']).fold(reply, Reply::text)
}
