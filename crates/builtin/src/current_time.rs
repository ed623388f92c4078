//! `current_time`: the model knows what time it is.

use jiff::tz::TimeZone;
use turnwright_core::TurnContext;
use turnwright_hook::{HookError, point::StartNodeTurn};

use crate::remind;

/// Tells the model the time once a turn, to the second, with time zone and weekday. A resumed turn keeps the time of its
/// begin.
///
/// START_NODE_TURN, name `current_time`.
#[derive(Debug, Clone)]
pub struct CurrentTime {
    zone: TimeZone,
}

impl Default for CurrentTime {
    /// In the machine's time zone.
    fn default() -> Self {
        Self::in_zone(TimeZone::system())
    }
}

impl CurrentTime {
    /// In this time zone.
    pub fn in_zone(zone: TimeZone) -> Self {
        Self { zone }
    }
}

impl StartNodeTurn for CurrentTime {
    async fn start_node_turn(&self, ctx: &TurnContext) -> Result<(), HookError> {
        let now = ctx.sources().clock.now().to_zoned_datetime(self.zone.clone());
        let zone = self.zone.iana_name().map_or_else(|| now.strftime("%:z").to_string(), str::to_owned);
        let words = format!("It is {} ({zone}), {}.", now.strftime("%Y-%m-%d %H:%M:%S"), now.strftime("%A"));
        Ok(remind(ctx, "current_time", words)?)
    }
}
