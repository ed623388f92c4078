//! What begins and ends an item.

use std::borrow::Cow;

use serde_json::value::RawValue;
use turnwright_core::ErrorInfo;

use super::{
    super::{
        event::{RawItem, RawPart},
        items::{Item, Kind, Labels},
        reasoning::sealed,
    },
    State,
};
use crate::{
    LlmEvent, StreamItem,
    wire::{
        events::object,
        list::items_of,
        text::{nonempty, text_of},
    },
};

impl State {
    pub(super) fn item_added(
        &mut self,
        labels: Labels<'_>,
        raw: Option<&RawValue>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let Some(item) = object::<RawItem<'_>>(raw) else { return Ok(()) };
        let id = item.id.and_then(text_of).unwrap_or_default();
        let kind = self.kind_of(&item);
        let at = self.begin(kind, Labels { id: &id, index: labels.index })?;
        self.describe_call(at, &item, out)
    }

    /// Takes an item that is whole, as far as its status says.
    pub(super) fn item_done(
        &mut self,
        index: Option<u64>,
        raw: &RawValue,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let Some(item) = object::<RawItem<'_>>(Some(raw)) else { return Ok(()) };
        let id = item.id.and_then(text_of).unwrap_or_default();
        let labels = Labels { id: &id, index };
        let kind = self.kind_of(&item);
        let at = match self.items.find(labels) {
            Some(at) if self.items.get(at).kind == kind && self.is_open_or_same(at, labels, &item) => at,
            // Its begin did not say what it is.
            Some(at) if self.items.becomes(at, kind, labels) => at,
            _ => self.unlabelled_or_new(kind, labels)?,
        };
        self.complete(at, &item, raw, out)
    }

    /// What an item is. A call of a custom tool that the request does not have is one that the server answers itself.
    fn kind_of(&self, item: &RawItem<'_>) -> Kind {
        match Kind::of(&nonempty(item.kind).unwrap_or_default()) {
            Kind::Custom if !self.tools.may_have(&nonempty(item.name).unwrap_or_default()) => Kind::Other,
            kind => kind,
        }
    }

    /// Whether the end of an item is that of this one. Of one that has ended, only if the server repeats itself.
    fn is_open_or_same(&mut self, at: usize, labels: Labels<'_>, item: &RawItem<'_>) -> bool {
        let Item { done, call, .. } = *self.items.get(at);
        let is_same_call = |call| self.calls.is(call, &call_id(item));
        !done || (self.items.fits(at, labels) && call.is_none_or(is_same_call))
    }

    /// Takes an item of the list that the last event repeats. From some servers the list is empty, and from some it is
    /// all there is. `streamed` is how many calls came before the list.
    pub(super) fn item_of_output(
        &mut self,
        index: u64,
        raw: &RawValue,
        streamed: usize,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let Some(item) = object::<RawItem<'_>>(Some(raw)) else { return Ok(()) };
        let id = item.id.and_then(text_of).unwrap_or_default();
        let labels = Labels { id: &id, index: Some(index) };
        let kind = self.kind_of(&item);
        let call_id = nonempty(item.call_id).unwrap_or_default();
        let at = match self.items.find(labels) {
            Some(at) if self.items.get(at).kind == kind && !self.items.get(at).listed => at,
            // It came under other labels.
            _ if kind.is_call() && self.calls.has(&call_id, streamed) => return Ok(()),
            _ if !kind.is_call() && !self.items.lacks(kind, index) => return Ok(()),
            _ => self.unlabelled_or_new(kind, labels)?,
        };
        self.items.get(at).listed = true;
        self.complete(at, &item, raw, out)
    }

    /// The item that was begun by pieces without labels; else a new one.
    fn unlabelled_or_new(&mut self, kind: Kind, labels: Labels<'_>) -> Result<usize, ErrorInfo> {
        self.items.unlabelled(kind).map_or_else(|| self.begin(kind, labels), Ok)
    }

    /// Begins an item, and the call in it if it is one.
    pub(super) fn begin(&mut self, kind: Kind, labels: Labels<'_>) -> Result<usize, ErrorInfo> {
        let at = self.items.begin(kind, labels)?;
        if kind.is_call() && self.items.get(at).call.is_none() {
            self.items.get(at).call = Some(self.calls.begin(kind == Kind::Custom)?);
        }
        Ok(at)
    }

    fn describe_call(
        &mut self,
        at: usize,
        item: &RawItem<'_>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let Some(call) = self.items.get(at).call else { return Ok(()) };
        self.said = true;
        self.calls.describe(call, &call_id(item), &nonempty(item.name).unwrap_or_default(), out)
    }

    fn complete(
        &mut self,
        at: usize,
        item: &RawItem<'_>,
        raw: &RawValue,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        if std::mem::replace(&mut self.items.get(at).done, true) {
            return Ok(());
        }
        let is_cut = nonempty(item.status).is_some_and(|status| status == "incomplete");
        match self.items.get(at).kind {
            Kind::Message => self.message(at, item, out),
            Kind::Reasoning => self.reasoning(at, item, raw, is_cut, out),
            Kind::Function | Kind::Custom => {
                self.describe_call(at, item, out)?;
                let Some(call) = self.items.get(at).call else { return Ok(()) };
                if let Some(whole) = item.arguments.or(item.input) {
                    self.calls.whole(call, whole, out)?;
                }
                self.calls.done(call, is_cut, out);
                Ok(())
            }
            Kind::Other => Ok(()),
        }
    }

    /// Emits what was not said of a message.
    fn message(&mut self, at: usize, item: &RawItem<'_>, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        let Some(content) = item.content else { return Ok(()) };
        let mut texts = Vec::new();
        for (index, part) in (0..).zip(items_of(content)?) {
            let Some(part) = object::<RawPart<'_>>(Some(part)) else { continue };
            let refusal = nonempty(part.refusal);
            self.refused |= refusal.is_some();
            texts.extend(nonempty(part.text).or(refusal).map(|text| (index, text)));
        }
        // Some servers count the parts in another way at the end than before.
        if self.items.has_said_all(at, texts.len()) {
            return Ok(());
        }
        for (index, text) in texts {
            if !self.items.has_said(at, Some(index)) {
                self.said = true;
                out.push(LlmEvent::text(text).into());
            }
        }
        Ok(())
    }

    /// Emits what was not said of a block of reasoning, and ends it.
    fn reasoning(
        &mut self,
        at: usize,
        item: &RawItem<'_>,
        raw: &RawValue,
        is_cut: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        self.said = true;
        if !self.items.has_said(at, None) {
            let before = out.len();
            for parts in [item.summary, item.content].into_iter().flatten() {
                for part in items_of(parts)? {
                    let part = object::<RawPart<'_>>(Some(part));
                    if let Some(text) = part.and_then(|part| nonempty(part.text)) {
                        out.push(LlmEvent::reasoning(text).into());
                    }
                }
                // The words in the clear say more of the same.
                if out.len() > before {
                    break;
                }
            }
        }
        // Thoughts that were cut go back to no provider.
        if !is_cut {
            out.extend(sealed(raw));
        }
        Ok(())
    }
}

/// The id by which the server knows the result of a call.
fn call_id<'a>(item: &RawItem<'a>) -> Cow<'a, str> {
    nonempty(item.call_id).or_else(|| nonempty(item.id)).unwrap_or_default()
}
