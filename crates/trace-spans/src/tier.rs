//! How much is traced.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// How much is traced. Each has all that the one before has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// One span a leg: `invoke_agent`.
    Minimal,
    /// Model calls, tools, handoffs and approvals too.
    #[default]
    Standard,
    /// Iterations too, and an event where the agent starts.
    Full,
}

impl Tier {
    /// All, from the least to the most.
    pub const ALL: [Self; 3] = [Self::Minimal, Self::Standard, Self::Full];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Standard => "standard",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No tier has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no tier; these are: minimal, standard, full")]
pub struct UnknownTier(pub String);

impl FromStr for Tier {
    type Err = UnknownTier;
    fn from_str(name: &str) -> Result<Self, UnknownTier> {
        Self::ALL.into_iter().find(|tier| tier.name() == name).ok_or_else(|| UnknownTier(name.into()))
    }
}
