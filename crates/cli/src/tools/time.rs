//! `current_time`.

use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;
use turnwright::{Json, Tool, ToolContext, ToolError, tool};

#[derive(Debug, Serialize)]
struct Now {
    utc: String,
    local: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
}

/// Tells the time, as the turn's clock does.
pub(crate) fn current_time() -> impl Tool {
    let describe = "The current date and time, in UTC and in the time zone of this machine (RFC 3339).";
    tool("current_time", describe, async |ctx: ToolContext, ()| {
        let now = ctx.turn().sources().clock.now();
        // Time zones are read from files.
        let told = ctx.blocking(move |_| Ok::<_, ToolError>(tell(now, TimeZone::system()))).await?;
        Ok(Json(told))
    })
    .parallel()
    .idempotent()
}

fn tell(now: Timestamp, zone: TimeZone) -> Now {
    let local = now.to_zoned_datetime(zone);
    Now {
        utc: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        local: local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        time_zone: local.time_zone().iana_name().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_times_are_rfc_3339() {
        let now: Timestamp = "2026-11-30T22:01:46.5Z".parse().unwrap();
        let told = tell(now, TimeZone::fixed(jiff::tz::offset(2)));
        assert_eq!(told.utc, "2026-11-30T22:01:46Z");
        assert_eq!(told.local, "2026-12-01T00:01:46+02:00");
        assert_eq!(told.time_zone, None);
    }
}
