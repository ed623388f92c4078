//! Mail in memory.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::watch;
use turnwright_control::Wakeup;
use turnwright_core::{BoxFuture, SessionId, Sources, clock::Instant};

use super::{Delivered, MAX_REMEMBERED, MAX_WAITING, Mail, MailClaim, MailError, MailKind, Mailbox, Posted};

/// Keeps mail in this process, until it is forgotten ([`Mailbox::forget`]).
#[derive(Default)]
pub struct MemoryMailbox {
    sources: Sources,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    boxes: HashMap<SessionId, Letters>,
    watchers: HashMap<SessionId, watch::Sender<u64>>,
    claims: u64,
}

#[derive(Default)]
struct Letters {
    waiting: Vec<Waiting>,
    /// Ids of acknowledged mail, oldest first.
    known: VecDeque<String>,
}

struct Waiting {
    mail: Mail,
    claim: Option<(u64, Instant)>,
    times: u32,
}

impl MemoryMailbox {
    /// An empty mailbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty mailbox that tells the time by these sources.
    pub fn with_sources(sources: Sources) -> Self {
        Self { sources, inner: Mutex::default() }
    }

    fn add(&self, mail: Mail) -> Result<Posted, MailError> {
        mail.check()?;
        let session = mail.to.clone();
        let mut inner = self.inner.lock();
        let of = inner.boxes.entry(session.clone()).or_default();
        if of.known.contains(&mail.id) || of.waiting.iter().any(|waiting| waiting.mail.id == mail.id) {
            return Ok(Posted::Duplicate);
        }
        if of.waiting.len() >= MAX_WAITING {
            return Err(MailError::Full { session, capacity: MAX_WAITING });
        }
        of.waiting.push(Waiting { mail, claim: None, times: 0 });
        inner.watchers.retain(|_, watcher| watcher.receiver_count() > 0);
        let watcher = inner.watchers.get(&session).cloned();
        drop(inner);
        if let Some(watcher) = watcher {
            watcher.send_modify(|n| *n += 1);
        }
        Ok(Posted::New)
    }

    fn take(&self, session: &SessionId, kinds: &[MailKind], limit: usize, lease: Duration) -> Vec<Delivered> {
        let now = self.sources.clock.instant();
        let mut inner = self.inner.lock();
        let Inner { boxes, claims, .. } = &mut *inner;
        let Some(of) = boxes.get_mut(session) else { return Vec::new() };
        let free = of.waiting.iter_mut().filter(|waiting| {
            kinds.contains(&waiting.mail.kind) && waiting.claim.is_none_or(|(_, until)| until <= now)
        });
        let claimed = free.take(limit).map(|waiting| {
            *claims += 1;
            waiting.claim = Some((*claims, now + lease));
            waiting.times = waiting.times.saturating_add(1);
            let claim = MailClaim { to: session.clone(), id: waiting.mail.id.clone(), number: *claims };
            Delivered { mail: waiting.mail.clone(), claim, times: waiting.times }
        });
        claimed.collect()
    }
}

impl Inner {
    fn claimed(&mut self, claim: &MailClaim) -> Option<(&mut Letters, usize)> {
        let of = self.boxes.get_mut(&claim.to)?;
        let is_it = |waiting: &Waiting| {
            waiting.mail.id == claim.id && waiting.claim.is_some_and(|(number, _)| number == claim.number)
        };
        let at = of.waiting.iter().position(is_it)?;
        Some((of, at))
    }
}

impl Mailbox for MemoryMailbox {
    fn post(&self, mail: Mail) -> BoxFuture<'_, Result<Posted, MailError>> {
        ready(self.add(mail))
    }

    fn claim<'a>(
        &'a self,
        session: &'a SessionId,
        kinds: &'a [MailKind],
        limit: usize,
        lease: Duration,
    ) -> BoxFuture<'a, Result<Vec<Delivered>, MailError>> {
        ready(Ok(self.take(session, kinds, limit, lease)))
    }

    fn acknowledge<'a>(&'a self, claims: &'a [MailClaim]) -> BoxFuture<'a, Result<usize, MailError>> {
        let mut inner = self.inner.lock();
        let mut acknowledged = 0;
        for claim in claims {
            if let Some((of, at)) = inner.claimed(claim) {
                let id = of.waiting.remove(at).mail.id;
                of.known.push_back(id);
                if of.known.len() > MAX_REMEMBERED {
                    of.known.pop_front();
                }
                acknowledged += 1;
            }
        }
        ready(Ok(acknowledged))
    }

    fn release<'a>(&'a self, claims: &'a [MailClaim]) -> BoxFuture<'a, Result<(), MailError>> {
        let mut inner = self.inner.lock();
        for claim in claims {
            if let Some((of, at)) = inner.claimed(claim)
                && let Some(waiting) = of.waiting.get_mut(at)
            {
                waiting.claim = None;
            }
        }
        ready(Ok(()))
    }

    fn find<'a>(
        &'a self,
        session: &'a SessionId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Mail>, MailError>> {
        let inner = self.inner.lock();
        let mut waiting = inner.boxes.get(session).into_iter().flat_map(|of| &of.waiting);
        ready(Ok(waiting.find(|waiting| waiting.mail.id == id).map(|waiting| waiting.mail.clone())))
    }

    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), MailError>> {
        self.inner.lock().boxes.remove(session);
        ready(Ok(()))
    }

    fn watch(&self, session: &SessionId) -> Wakeup {
        let mut inner = self.inner.lock();
        if !inner.watchers.contains_key(session) {
            // Where no mail comes, nobody else tidies up.
            inner.watchers.retain(|_, watcher| watcher.receiver_count() > 0);
        }
        Wakeup::new(inner.watchers.entry(session.clone()).or_insert_with(|| watch::Sender::new(0)))
    }
}

impl std::fmt::Debug for MemoryMailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryMailbox")
            .field("sessions", &self.inner.lock().boxes.len())
            .finish_non_exhaustive()
    }
}

fn ready<'a, T: Send + 'a>(done: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_of_whom_nobody_watches_any_more() {
        let mailbox = MemoryMailbox::new();
        for n in 0..1000 {
            drop(mailbox.watch(&SessionId::new(format!("s{n}")).unwrap()));
        }
        let kept = mailbox.watch(&SessionId::new("last").unwrap());
        assert_eq!(mailbox.inner.lock().watchers.len(), 1);
        drop(kept);
    }
}
