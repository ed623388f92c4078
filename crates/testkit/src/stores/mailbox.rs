//! The promises of a mailbox.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::future::join_all;
use turnwright_core::SessionId;
use turnwright_react_runtime::mailbox::{
    Delivered, MAX_REMEMBERED, MAX_WAITING, Mail, MailClaim, MailError, MailKind, Mailbox, Posted,
};

use super::{Broken, holds, same, session::session};

const LONG: Duration = Duration::from_secs(600);
/// A claim that ends while a test waits for that.
const SHORT: Duration = Duration::from_millis(40);
const ALL: [MailKind; 3] = [MailKind::AgentMessage, MailKind::AgentResult, MailKind::ExternalInput];

/// A fresh mailbox for each promise.
pub type MakeMailbox<'a> = &'a (dyn Fn() -> Arc<dyn Mailbox> + Sync);

/// Runs a mailbox through every promise of [`Mailbox`]. Wants a tokio runtime with time.
///
/// # Errors
/// The first promise that is broken.
pub async fn mailbox_conformance(make: MakeMailbox<'_>) -> Result<(), Broken> {
    mail_comes_in_order_and_by_kind(&*make()).await?;
    ids_are_known(&*make()).await?;
    claims_exclude_and_end(&*make()).await?;
    late_claims_count_until_there_is_another(&*make()).await?;
    what_is_no_mail_is_refused(&*make()).await?;
    boxes_are_bounded(&*make()).await?;
    many_claim_each_once(&make()).await?;
    watchers_are_woken(&*make()).await
}

fn mail(to: &SessionId, id: &str, kind: MailKind) -> Mail {
    let text = format!("text of {id}");
    Mail { id: id.into(), to: to.clone(), from: "a".into(), kind, text, answers: Some("call".into()) }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
fn words(e: MailError) -> Broken {
    format!("the mailbox failed: {e}")
}

async fn post(mailbox: &dyn Mailbox, to: &SessionId, id: &str) -> Result<Posted, Broken> {
    mailbox.post(mail(to, id, MailKind::AgentResult)).await.map_err(words)
}

async fn claim(
    mailbox: &dyn Mailbox,
    of: &SessionId,
    limit: usize,
    lease: Duration,
) -> Result<Vec<Delivered>, Broken> {
    mailbox.claim(of, &ALL, limit, lease).await.map_err(words)
}

fn ids(delivered: &[Delivered]) -> Vec<&str> {
    delivered.iter().map(|d| d.mail.id.as_str()).collect()
}

fn claims(delivered: &[Delivered]) -> Vec<MailClaim> {
    delivered.iter().map(|d| d.claim.clone()).collect()
}

async fn mail_comes_in_order_and_by_kind(mailbox: &dyn Mailbox) -> Result<(), Broken> {
    let (to, other) = (session("s"), session("s2"));
    same!(claim(mailbox, &to, 10, LONG).await?.len(), 0, "an empty box gives nothing");
    let kinds = [MailKind::ExternalInput, MailKind::AgentMessage, MailKind::AgentResult];
    for (id, kind) in ["c", "a", "b"].iter().zip(kinds) {
        same!(mailbox.post(mail(&to, id, kind)).await, Ok(Posted::New), "mail is taken");
    }
    post(mailbox, &other, "z").await?;
    let found = mailbox.find(&to, "a").await.map_err(words)?;
    same!(found, Some(mail(&to, "a", MailKind::AgentMessage)), "mail is found as it was posted");
    let folded = mailbox.claim(&to, &MailKind::FOLDED, 10, LONG).await.map_err(words)?;
    same!(ids(&folded), ["a", "b"], "mail comes in the order it was posted, and only of the kinds asked for");
    same!(ids(&claim(mailbox, &to, 10, LONG).await?), ["c"], "what is left waits, and is the session's own");
    Ok(())
}

async fn ids_are_known(mailbox: &dyn Mailbox) -> Result<(), Broken> {
    let to = session("s");
    same!(post(mailbox, &to, "a").await?, Posted::New, "mail is taken");
    same!(post(mailbox, &to, "a").await?, Posted::Duplicate, "an id that waits is known");
    let claimed = claim(mailbox, &to, 10, LONG).await?;
    same!(post(mailbox, &to, "a").await?, Posted::Duplicate, "an id that is claimed is known");
    let done = mailbox.acknowledge(&claims(&claimed)).await;
    same!(done, Ok(1), "what was claimed is acknowledged");
    same!(post(mailbox, &to, "a").await?, Posted::Duplicate, "an id that was acknowledged is known");
    same!(post(mailbox, &session("s2"), "a").await?, Posted::New, "ids are a session's own");
    same!(mailbox.find(&to, "a").await, Ok(None), "acknowledged mail is not found");
    same!(mailbox.acknowledge(&claims(&claimed)).await, Ok(0), "mail is acknowledged once");
    mailbox.forget(&to).await.map_err(words)?;
    same!(post(mailbox, &to, "a").await?, Posted::New, "what is forgotten is not known");
    Ok(())
}

async fn claims_exclude_and_end(mailbox: &dyn Mailbox) -> Result<(), Broken> {
    let to = session("s");
    for id in ["a", "b", "c"] {
        post(mailbox, &to, id).await?;
    }
    let first = claim(mailbox, &to, 2, LONG).await?;
    same!(ids(&first), ["a", "b"], "no more is claimed than was asked for");
    let second = claim(mailbox, &to, 10, SHORT).await?;
    same!(ids(&second), ["c"], "what is claimed is not given to others");
    tokio::time::sleep(SHORT * 2).await;
    let again = claim(mailbox, &to, 10, LONG).await?;
    same!(ids(&again), ["c"], "a claim ends by itself, and the mail comes again");
    same!(again.first().map(|d| d.times), Some(2), "it is told how often mail was claimed");
    same!(mailbox.acknowledge(&claims(&second)).await, Ok(0), "a claim that was taken over counts no more");
    mailbox.release(&claims(&second)).await.map_err(words)?;
    same!(claim(mailbox, &to, 10, LONG).await?.len(), 0, "nor does it give back what is another's");
    let back: Vec<_> = claims(&first).into_iter().skip(1).collect();
    mailbox.release(&back).await.map_err(words)?;
    same!(ids(&claim(mailbox, &to, 10, LONG).await?), ["b"], "what is given back comes again at once");
    Ok(())
}

async fn late_claims_count_until_there_is_another(mailbox: &dyn Mailbox) -> Result<(), Broken> {
    let to = session("s");
    post(mailbox, &to, "a").await?;
    let claimed = claim(mailbox, &to, 10, SHORT).await?;
    tokio::time::sleep(SHORT * 2).await;
    let done = mailbox.acknowledge(&claims(&claimed)).await;
    same!(done, Ok(1), "a claim whose time is over counts while nobody has another");
    same!(claim(mailbox, &to, 10, LONG).await?.len(), 0, "what was acknowledged does not come again");
    Ok(())
}

async fn what_is_no_mail_is_refused(mailbox: &dyn Mailbox) -> Result<(), Broken> {
    let to = session("s");
    let good = || mail(&to, "a", MailKind::AgentResult);
    for bad in [
        Mail { id: String::new(), ..good() },
        Mail { id: "x".repeat(Mail::MAX_ID + 1), ..good() },
        Mail { from: "x".repeat(Mail::MAX_ID + 1), ..good() },
        Mail { text: String::new(), ..good() },
        Mail { text: "x".repeat(Mail::MAX_TEXT + 1), ..good() },
    ] {
        let refused = mailbox.post(bad).await;
        holds!(matches!(refused, Err(MailError::Invalid(_))), "what is no mail is refused");
    }
    let longest = Mail { text: "x".repeat(Mail::MAX_TEXT), ..good() };
    same!(mailbox.post(longest).await, Ok(Posted::New), "the longest text is taken");
    Ok(())
}

async fn boxes_are_bounded(mailbox: &dyn Mailbox) -> Result<(), Broken> {
    let to = session("s");
    for n in 0..MAX_WAITING {
        post(mailbox, &to, &format!("{n}")).await?;
    }
    let full = MailError::Full { session: to.clone(), capacity: MAX_WAITING };
    let refused = mailbox.post(mail(&to, "more", MailKind::AgentResult)).await;
    same!(refused, Err(full), "a full box refuses");
    same!(post(mailbox, &to, "0").await?, Posted::Duplicate, "a full box knows what it has");
    same!(post(mailbox, &session("s2"), "more").await?, Posted::New, "a full box is nobody else's matter");
    let all = claim(mailbox, &to, MAX_WAITING, LONG).await?;
    same!(mailbox.acknowledge(&claims(&all)).await, Ok(MAX_WAITING), "all of it is acknowledged");
    post(mailbox, &to, "last").await?;
    let last = claim(mailbox, &to, 1, LONG).await?;
    same!(mailbox.acknowledge(&claims(&last)).await, Ok(1), "and one more");
    same!(post(mailbox, &to, "0").await?, Posted::New, "the oldest id is forgotten");
    same!(
        post(mailbox, &to, "1").await?,
        Posted::Duplicate,
        format!("the last {MAX_REMEMBERED} are remembered")
    );
    Ok(())
}

async fn many_claim_each_once(mailbox: &Arc<dyn Mailbox>) -> Result<(), Broken> {
    let to = session("s");
    for n in 0..100 {
        post(&**mailbox, &to, &format!("{n}")).await?;
    }
    let claimers = (0..8).map(|_| async {
        let mut mine = Vec::new();
        loop {
            let some = claim(&**mailbox, &to, 7, LONG).await?;
            if some.is_empty() {
                return Ok::<_, Broken>(mine);
            }
            mine.extend(some.into_iter().map(|d| d.mail.id));
        }
    });
    let mut all = Vec::new();
    for mine in join_all(claimers).await {
        all.extend(mine?);
    }
    same!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (100, 100), "each piece is claimed by one");
    Ok(())
}

async fn watchers_are_woken(mailbox: &dyn Mailbox) -> Result<(), Broken> {
    let to = session("s");
    let mut wakeup = mailbox.watch(&to);
    post(mailbox, &to, "a").await?;
    let woken = tokio::time::timeout(Duration::from_secs(5), wakeup.arrived()).await;
    holds!(woken.is_ok(), "whoever watches a session is woken when mail comes for it");
    Ok(())
}
