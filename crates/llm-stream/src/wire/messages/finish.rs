//! Stop reasons: in the words of the servers, and which of several counts.

use crate::FinishReason;

/// What a stop reason means. Words of other formats are those of routers that forgot to translate.
pub(super) fn finish_reason(raw: &str) -> FinishReason {
    match raw {
        "end_turn" | "stop_sequence" | "stop" => FinishReason::Stop,
        "tool_use" | "tool_calls" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" | "length" => FinishReason::Length,
        "refusal" => FinishReason::Refusal,
        "content_filter" => FinishReason::ContentFilter,
        // Also `pause_turn` and `compaction`: the server waits for what we do not send.
        _ => FinishReason::Other,
    }
}

/// The stop reason of one answer.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    reason: Option<(FinishReason, String)>,
    /// The answer went on after the reason.
    reopened: bool,
}

impl Stopped {
    /// Whether the answer is finished as far as is known.
    pub(super) fn is_seen(&self) -> bool {
        self.reason.is_some() && !self.reopened
    }

    /// Takes a reason. The last one counts, unless only an earlier one says that the answer is not what the model would
    /// have given: the calls of a cut answer must not run.
    pub(super) fn note(&mut self, raw: &str) {
        self.reopened = false;
        let reason = finish_reason(raw);
        if self.reason.as_ref().is_none_or(|(known, _)| !is_cut(*known) || is_cut(reason)) {
            self.reason = Some((reason, raw.to_owned()));
        }
    }

    /// Says that content came: an answer that was finished is not.
    pub(super) fn reopen(&mut self) {
        self.reopened = self.reason.is_some();
    }

    /// The reason, with the server's word.
    pub(super) fn take(&mut self) -> Option<(FinishReason, String)> {
        self.reason.take()
    }
}

fn is_cut(reason: FinishReason) -> bool {
    !matches!(reason, FinishReason::Stop | FinishReason::ToolCalls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use FinishReason::*;

    #[test]
    fn every_word_has_a_meaning() {
        for (raw, meaning) in [
            ("end_turn", Stop),
            ("stop_sequence", Stop),
            ("tool_use", ToolCalls),
            ("max_tokens", Length),
            ("model_context_window_exceeded", Length),
            ("refusal", Refusal),
            ("content_filter", ContentFilter),
            ("pause_turn", Other),
            ("compaction", Other),
            ("new", Other),
        ] {
            assert_eq!(finish_reason(raw), meaning, "{raw}");
        }
    }

    #[test]
    fn a_cut_is_not_forgotten_for_a_better_word() {
        let counts = |words: &[&str]| {
            let mut stopped = Stopped::default();
            words.iter().for_each(|word| stopped.note(word));
            stopped.take().unwrap().1
        };
        assert_eq!(counts(&["max_tokens", "end_turn"]), "max_tokens");
        assert_eq!(counts(&["end_turn", "max_tokens"]), "max_tokens");
        assert_eq!(counts(&["tool_use", "end_turn"]), "end_turn");
    }
}
