//! Mail in the store's file.

use std::{sync::Arc, time::Duration};

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use turnwright_control::Wakeup;
use turnwright_core::{BoxFuture, SessionId};
use turnwright_react_runtime::{
    mailbox::{
        Delivered, MAX_REMEMBERED, MAX_WAITING, Mail, MailClaim, MailError, MailKind, Mailbox, Posted,
    },
    store::StoreError,
};

use crate::{
    read::body,
    sqlite::Shared,
    write::{Now, json, sql},
};

/// A mailbox in the file of a [`crate::SqliteStore`]: mail reaches whichever process runs the session.
///
/// A claim ends with the process that made it. Mail goes with its session when that is deleted or swept.
#[derive(Clone)]
pub struct SqliteMailbox(pub(crate) Arc<Shared>);

impl Mailbox for SqliteMailbox {
    fn post(&self, mail: Mail) -> BoxFuture<'_, Result<Posted, MailError>> {
        Box::pin(async move {
            mail.check()?;
            let session = mail.to.clone();
            // The outer error is the store's, the inner one the mailbox's own.
            self.0.change(session, move |tx, now| Ok(insert(tx, &mail, now))).await?
        })
    }

    fn claim<'a>(
        &'a self,
        session: &'a SessionId,
        kinds: &'a [MailKind],
        limit: usize,
        lease: Duration,
    ) -> BoxFuture<'a, Result<Vec<Delivered>, MailError>> {
        let (session, kinds, now) = (session.clone(), kinds.to_vec(), self.0.now());
        Box::pin(async move {
            // A look first: most times nothing waits, and a look keeps nobody from writing.
            let waits = {
                let session = session.clone();
                self.0.threads.read(move |db| any(db, &session)).await?
            };
            if !waits {
                return Ok(Vec::new());
            }
            let claimed =
                self.0.threads.write(move |tx| claim(tx, &session, &kinds, (limit, lease), &now)).await?;
            Ok(claimed)
        })
    }

    fn acknowledge<'a>(&'a self, claims: &'a [MailClaim]) -> BoxFuture<'a, Result<usize, MailError>> {
        let (claims, now) = (claims.to_vec(), self.0.now());
        Box::pin(async move { Ok(self.0.threads.write(move |tx| acknowledge(tx, &claims, &now)).await?) })
    }

    fn release<'a>(&'a self, claims: &'a [MailClaim]) -> BoxFuture<'a, Result<(), MailError>> {
        let claims = claims.to_vec();
        Box::pin(async move { Ok(self.0.threads.write(move |tx| release(tx, &claims)).await?) })
    }

    fn find<'a>(
        &'a self,
        session: &'a SessionId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Mail>, MailError>> {
        let (session, id) = (session.clone(), id.to_owned());
        Box::pin(async move { Ok(self.0.threads.read(move |db| find(db, &session, &id)).await?) })
    }

    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), MailError>> {
        let session = session.clone();
        Box::pin(async move { Ok(self.0.threads.write(move |tx| forget(tx, &session)).await?) })
    }

    fn watch(&self, session: &SessionId) -> Wakeup {
        let wakeup = self.0.watchers.watch(session);
        self.0.poller().needed();
        wakeup
    }
}

impl std::fmt::Debug for SqliteMailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SqliteMailbox")
    }
}

fn insert(tx: &Transaction<'_>, mail: &Mail, now: &Now) -> Result<Posted, MailError> {
    let session = mail.to.as_str();
    let count = |query: &str, id: &[&str]| -> Result<i64, StoreError> {
        let mut find = tx.prepare_cached(query).map_err(sql)?;
        find.query_row(rusqlite::params_from_iter(id), |row| row.get(0)).map_err(sql)
    };
    if count("SELECT count(*) FROM mail WHERE session = ?1 AND id = ?2", &[session, &mail.id])? > 0 {
        return Ok(Posted::Duplicate);
    }
    let waiting = count("SELECT count(*) FROM mail WHERE session = ?1 AND body IS NOT NULL", &[session])?;
    if usize::try_from(waiting).is_ok_and(|waiting| waiting >= MAX_WAITING) {
        return Err(MailError::Full { session: mail.to.clone(), capacity: MAX_WAITING });
    }
    let text = json(mail)?;
    tx.prepare_cached("INSERT INTO mail (session, id, body, posted_at, times) VALUES (?1, ?2, ?3, ?4, 0)")
        .and_then(|mut insert| insert.execute(params![session, mail.id, text, now.ms()]))
        .map_err(sql)?;
    Ok(Posted::New)
}

fn any(db: &Connection, session: &SessionId) -> Result<bool, StoreError> {
    let mut find = db
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM mail WHERE session = ?1 AND body IS NOT NULL)")
        .map_err(sql)?;
    find.query_row([session.as_str()], |row| row.get(0)).map_err(sql)
}

fn claim(
    tx: &Transaction<'_>,
    session: &SessionId,
    kinds: &[MailKind],
    (limit, lease): (usize, Duration),
    now: &Now,
) -> Result<Vec<Delivered>, StoreError> {
    let mut find = tx
        .prepare_cached(
            "SELECT number, body, owner, until, times FROM mail
             WHERE session = ?1 AND body IS NOT NULL ORDER BY number",
        )
        .map_err(sql)?;
    let mut rows = find.query([session.as_str()]).map_err(sql)?;
    let mut free = Vec::new();
    while free.len() < limit
        && let Some(row) = rows.next().map_err(sql)?
    {
        let (owner, until): (Option<String>, Option<i64>) =
            (row.get(2).map_err(sql)?, row.get(3).map_err(sql)?);
        let lasts = until.is_some_and(|until| until > now.ms())
            && !owner.as_deref().is_some_and(|owner| now.owner.is_dead(owner));
        if lasts {
            continue;
        }
        let number: i64 = row.get(0).map_err(sql)?;
        match body::<Mail>(row, session, "mail") {
            Ok(mail) if kinds.contains(&mail.kind) => {
                free.push((number, mail, row.get::<_, u32>(4).map_err(sql)?.saturating_add(1)));
            }
            Ok(_) => {}
            // It can reach nobody, and must not keep others from it; `check` names it.
            Err(e) => tracing::warn!("{e}"),
        }
    }
    drop(rows);
    let mut update = tx
        .prepare_cached("UPDATE mail SET claim = ?2, owner = ?3, until = ?4, times = ?5 WHERE number = ?1")
        .map_err(sql)?;
    let mut claimed = Vec::with_capacity(free.len());
    for (number, mail, times) in free {
        let claim: i64 = tx
            .query_row(
                "UPDATE counters SET value = value + 1 WHERE name = 'claim' RETURNING value",
                [],
                |row| row.get(0),
            )
            .map_err(sql)?;
        update.execute(params![number, claim, now.owner.id(), now.after(lease), times]).map_err(sql)?;
        let claim =
            MailClaim { to: session.clone(), id: mail.id.clone(), number: u64::try_from(claim).unwrap_or(0) };
        claimed.push(Delivered { mail, claim, times });
    }
    Ok(claimed)
}

/// The text goes, and the id stays.
fn acknowledge(tx: &Transaction<'_>, claims: &[MailClaim], now: &Now) -> Result<usize, StoreError> {
    let mut acknowledged = 0;
    for claim in claims {
        let session = claim.to.as_str();
        acknowledged += tx
            .prepare_cached(
                "UPDATE mail SET body = NULL, claim = NULL, owner = NULL, until = NULL, acknowledged_at = ?4
                 WHERE session = ?1 AND id = ?2 AND claim = ?3 AND body IS NOT NULL",
            )
            .and_then(|mut update| update.execute(params![session, claim.id, of(claim), now.ms()]))
            .map_err(sql)?;
        tx.prepare_cached(
            "DELETE FROM mail WHERE session = ?1 AND body IS NULL AND number <= (
               SELECT number FROM mail WHERE session = ?1 AND body IS NULL ORDER BY number DESC LIMIT 1 OFFSET ?2)",
        )
        .and_then(|mut delete| {
            delete.execute(params![session, i64::try_from(MAX_REMEMBERED).unwrap_or(i64::MAX)])
        })
        .map_err(sql)?;
    }
    Ok(acknowledged)
}

fn release(tx: &Transaction<'_>, claims: &[MailClaim]) -> Result<(), StoreError> {
    for claim in claims {
        tx.prepare_cached(
            "UPDATE mail SET claim = NULL, owner = NULL, until = NULL WHERE session = ?1 AND id = ?2 AND claim = ?3",
        )
        .and_then(|mut update| update.execute(params![claim.to.as_str(), claim.id, of(claim)]))
        .map_err(sql)?;
    }
    Ok(())
}

/// No claim has the number -1.
fn of(claim: &MailClaim) -> i64 {
    i64::try_from(claim.number).unwrap_or(-1)
}

fn find(db: &Connection, session: &SessionId, id: &str) -> Result<Option<Mail>, StoreError> {
    let mut find = db
        .prepare_cached("SELECT number, body FROM mail WHERE session = ?1 AND id = ?2 AND body IS NOT NULL")
        .map_err(sql)?;
    find.query_row(params![session.as_str(), id], |row| Ok(body(row, session, "mail")))
        .optional()
        .map_err(sql)?
        .transpose()
}

pub(crate) fn forget(tx: &Transaction<'_>, session: &SessionId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM mail WHERE session = ?1", [session.as_str()]).map_err(sql)?;
    Ok(())
}
