//! Span contexts as the two W3C headers, `traceparent` and `tracestate`.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use serde::{Deserialize, Serialize};

/// A span of another process, by the values of two headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHeaders {
    /// `traceparent`: trace, span and flags.
    pub traceparent: String,
    /// `tracestate`: what vendors add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl TraceHeaders {
    /// Those of a span; none of an invalid one.
    pub fn of(span: &SpanContext) -> Option<Self> {
        if !span.is_valid() {
            return None;
        }
        let flags = span.trace_flags() & TraceFlags::SAMPLED;
        let traceparent = format!("00-{}-{}-{:02x}", span.trace_id(), span.span_id(), flags.to_u8());
        let state = span.trace_state().header();
        Some(Self { traceparent, tracestate: (!state.is_empty()).then_some(state) })
    }

    /// The span they name, as one of elsewhere. None where `traceparent` is not what the W3C says; a bad `tracestate` is left
    /// out.
    pub fn span(&self) -> Option<SpanContext> {
        let is_hex = |text: &&str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let parts: Vec<&str> = self.traceparent.trim().split('-').collect();
        let [version, trace, span, flags, rest @ ..] = parts.as_slice() else { return None };
        let fits = [(version, 2), (trace, 32), (span, 16), (flags, 2)];
        if fits.iter().any(|(part, len)| part.len() != *len || !is_hex(part)) {
            return None;
        }
        if *version == "ff" || (*version == "00" && !rest.is_empty()) {
            return None;
        }
        let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
        let state = self.tracestate.as_deref().and_then(|state| state.parse::<TraceState>().ok());
        let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
        Some(SpanContext::new(trace, span, flags, true, state.unwrap_or_default()))
            .filter(SpanContext::is_valid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(traceparent: &str) -> Option<SpanContext> {
        TraceHeaders { traceparent: traceparent.into(), tracestate: None }.span()
    }

    #[test]
    fn headers_come_back_as_they_went_and_garbage_is_none() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let headers = TraceHeaders { traceparent: good.into(), tracestate: Some("a=1,b=2".into()) };
        let span = headers.span().unwrap();
        assert!(span.is_remote() && span.is_sampled());
        assert_eq!(TraceHeaders::of(&span), Some(headers));
        assert!(!parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").unwrap().is_sampled());
        assert!(parse("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more").is_some());
        for bad in [
            "",
            "00",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033é-01",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        let no_state = TraceHeaders { traceparent: good.into(), tracestate: Some("===".into()) };
        assert!(no_state.span().is_some());
    }
}
