//! Typed, namespaced, versioned state of one turn.
//!
//! Hooks and layers are shared by all sessions, so what they remember about a turn lives here. Values are owned:
//! [`TurnState::get`] hands out a shared value, [`TurnState::set`] and [`TurnState::update`] replace it. No user code
//! runs under the lock, the `Drop` of a replaced value included. Keys that nobody reads survive a snapshot byte for
//! byte.

use std::{any::Any, collections::BTreeMap, fmt, marker::PhantomData, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

/// Upgrades stored data of an older version to the current shape.
pub type Migration = fn(from: u32, data: Value) -> Result<Value, String>;

/// The key of a value: `namespace/name`, a schema version, and the value's type.
pub struct StateKey<T> {
    name: &'static str,
    version: u32,
    migrate: Option<Migration>,
    value: PhantomData<fn() -> T>,
}

impl<T> StateKey<T> {
    /// A key. The name is `namespace/name`, for example `acme.billing/episode`.
    pub const fn new(name: &'static str, version: u32) -> Self {
        Self { name, version, migrate: None, value: PhantomData }
    }

    /// The same key, able to read older versions.
    #[must_use]
    pub const fn migrate(mut self, migrate: Migration) -> Self {
        self.migrate = Some(migrate);
        self
    }

    /// The name of the key.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// State that could not be read or written. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The stored data does not fit the type.
    #[error("state {key:?} version {version} cannot be read: {why}")]
    Unreadable {
        /// The key.
        key: String,
        /// The version it was stored with.
        version: u32,
        /// Why.
        why: String,
    },
    /// The stored version is newer, or older without a migration.
    #[error("state {key:?} is stored with version {found}, this program reads version {expected}")]
    Version {
        /// The key.
        key: String,
        /// The stored version.
        found: u32,
        /// The version of the key.
        expected: u32,
    },
    /// Two types share one key.
    #[error("state {key:?} holds a value of another type")]
    Type {
        /// The key.
        key: String,
    },
    /// The value cannot be serialized.
    #[error("state {key:?} cannot be written: {why}")]
    Unwritable {
        /// The key.
        key: String,
        /// Why.
        why: String,
    },
}

/// One stored value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredState {
    /// The schema version.
    #[serde(rename = "v")]
    pub version: u32,
    /// The value, as it was written.
    pub data: Box<RawValue>,
}

type Erased = Arc<dyn Any + Send + Sync>;
type Encode = fn(&Erased) -> Result<Box<RawValue>, String>;

#[derive(Clone)]
enum Slot {
    Stored(Arc<StoredState>),
    Live { version: u32, value: Erased, encode: Encode },
}

/// The state of one turn. Clones share it.
#[derive(Clone, Default)]
pub struct TurnState(Arc<Mutex<BTreeMap<String, Slot>>>);

impl TurnState {
    /// Empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// State as it was stored.
    pub fn restore(stored: BTreeMap<String, StoredState>) -> Self {
        Self(Arc::new(Mutex::new(stored.into_iter().map(|(k, v)| (k, Slot::Stored(Arc::new(v)))).collect())))
    }

    /// The value of a key, or none when it was never set.
    ///
    /// # Errors
    /// [`StateError`] when what is stored cannot be read as the key's type and version.
    pub fn get<T: Serialize + DeserializeOwned + Send + Sync + 'static>(
        &self,
        key: &StateKey<T>,
    ) -> Result<Option<Arc<T>>, StateError> {
        let slot = self.0.lock().get(key.name).cloned();
        match slot {
            None => Ok(None),
            Some(Slot::Live { value, .. }) => downcast(key, value).map(Some),
            Some(Slot::Stored(stored)) => {
                let value = Arc::new(decode(key, &stored)?);
                // Whichever of the two values loses is dropped after the guard.
                let newer = {
                    let mut slots = self.0.lock();
                    match slots.get(key.name) {
                        Some(Slot::Stored(now)) if Arc::ptr_eq(now, &stored) => {
                            slots.insert(key.name.into(), live(key, value.clone()));
                            None
                        }
                        Some(Slot::Live { value, .. }) => Some(value.clone()),
                        _ => None,
                    }
                };
                newer.map_or(Ok(value), |newer| downcast(key, newer)).map(Some)
            }
        }
    }

    /// Sets a key.
    pub fn set<T: Serialize + DeserializeOwned + Send + Sync + 'static>(&self, key: &StateKey<T>, value: T) {
        let slot = live(key, Arc::new(value));
        // Named, so that the guard goes first: a value's `Drop` is user code.
        let old = self.0.lock().insert(key.name.into(), slot);
        drop(old);
    }

    /// Removes a key. Returns whether it was there.
    pub fn remove<T>(&self, key: &StateKey<T>) -> bool {
        let old = self.0.lock().remove(key.name);
        old.is_some()
    }

    /// Replaces a value by what `next` makes of it, again from the newer value when another writer came first. `next`
    /// may therefore run more than once and must have no effect of its own.
    ///
    /// # Errors
    /// As [`TurnState::get`].
    pub fn update<T: Serialize + DeserializeOwned + Send + Sync + 'static>(
        &self,
        key: &StateKey<T>,
        mut next: impl FnMut(Option<&T>) -> T,
    ) -> Result<Arc<T>, StateError> {
        loop {
            let old = self.get(key)?;
            let new = Arc::new(next(old.as_deref()));
            let mut slots = self.0.lock();
            let unchanged = match (slots.get(key.name), &old) {
                (None, None) => true,
                (Some(Slot::Live { value, .. }), Some(old)) => {
                    std::ptr::addr_eq(Arc::as_ptr(value), Arc::as_ptr(old))
                }
                _ => false,
            };
            if unchanged {
                let replaced = slots.insert(key.name.into(), live(key, new.clone()));
                drop(slots);
                drop(replaced);
                return Ok(new);
            }
        }
    }

    /// The state as it is now, apart: it shares the values, and no change of one is seen in the other. Nothing is written.
    #[must_use]
    pub fn fork(&self) -> Self {
        let slots = self.0.lock().clone();
        Self(Arc::new(Mutex::new(slots)))
    }

    /// Everything, ready to be stored.
    ///
    /// # Errors
    /// [`StateError::Unwritable`] naming the key whose value cannot be serialized.
    pub fn snapshot(&self) -> Result<BTreeMap<String, StoredState>, StateError> {
        // Values are encoded outside the lock: their `Serialize` is user code.
        let slots = self.0.lock().clone();
        let store = |(key, slot): (String, Slot)| match slot {
            Slot::Stored(stored) => Ok((key, (*stored).clone())),
            Slot::Live { version, value, encode } => match encode(&value) {
                Ok(data) => Ok((key, StoredState { version, data })),
                Err(why) => Err(StateError::Unwritable { key, why }),
            },
        };
        slots.into_iter().map(store).collect()
    }
}

impl fmt::Debug for TurnState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The writer behind `f` is user code too.
        let keys: Vec<_> = self.0.lock().keys().cloned().collect();
        f.debug_set().entries(keys).finish()
    }
}

fn live<T: Serialize + Send + Sync + 'static>(key: &StateKey<T>, value: Arc<T>) -> Slot {
    fn encode<T: Serialize + Send + Sync + 'static>(value: &Erased) -> Result<Box<RawValue>, String> {
        let value = value.downcast_ref::<T>().ok_or("the value changed its type")?;
        serde_json::value::to_raw_value(value).map_err(|e| e.to_string())
    }
    Slot::Live { version: key.version, value, encode: encode::<T> }
}

fn downcast<T: Send + Sync + 'static>(key: &StateKey<T>, value: Erased) -> Result<Arc<T>, StateError> {
    value.downcast::<T>().map_err(|_| StateError::Type { key: key.name.into() })
}

fn decode<T: DeserializeOwned>(key: &StateKey<T>, stored: &StoredState) -> Result<T, StateError> {
    let unreadable =
        |why: String| StateError::Unreadable { key: key.name.into(), version: stored.version, why };
    if stored.version == key.version {
        return serde_json::from_str(stored.data.get()).map_err(|e| unreadable(e.to_string()));
    }
    match key.migrate {
        Some(migrate) if stored.version < key.version => {
            let old = serde_json::from_str(stored.data.get()).map_err(|e| unreadable(e.to_string()))?;
            let new = migrate(stored.version, old).map_err(unreadable)?;
            serde_json::from_value(new).map_err(|e| unreadable(e.to_string()))
        }
        _ => Err(StateError::Version { key: key.name.into(), found: stored.version, expected: key.version }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Episode {
        rounds: u32,
    }
    const EPISODE: StateKey<Episode> = StateKey::new("test.loop/episode", 2)
        .migrate(|_, v| Ok(json!({ "rounds": v.as_u64().ok_or("not a number")? })));

    #[test]
    fn fault_c20_a_value_survives_its_snapshot_and_restored_twice_gives_two() {
        let state = TurnState::new();
        assert_eq!(state.get(&EPISODE), Ok(None));
        state.update(&EPISODE, |old| Episode { rounds: old.map_or(1, |e| e.rounds + 1) }).unwrap();
        let stored = state.snapshot().unwrap();
        let (a, b) = (TurnState::restore(stored.clone()), TurnState::restore(stored));
        a.update(&EPISODE, |old| Episode { rounds: old.unwrap().rounds + 1 }).unwrap();
        assert_eq!(a.get(&EPISODE).unwrap().unwrap().rounds, 2);
        assert_eq!(b.get(&EPISODE).unwrap().unwrap().rounds, 1);
    }

    #[test]
    fn a_fork_keeps_what_was_and_goes_its_own_way() {
        let state = TurnState::new();
        state.set(&EPISODE, Episode { rounds: 1 });
        let fork = state.fork();
        state.set(&EPISODE, Episode { rounds: 2 });
        assert_eq!(fork.get(&EPISODE).unwrap().unwrap().rounds, 1);
        fork.remove(&EPISODE);
        assert_eq!(state.get(&EPISODE).unwrap().unwrap().rounds, 2);
    }

    #[test]
    fn fault_k11_unknown_keys_survive_byte_for_byte_and_bad_data_is_an_error() {
        let json = r#"{"other/key":{"v":9,"data":{"b":1,"a":12345678901234567890123}},"test.loop/episode":{"v":1,"data":4}}"#;
        let state = TurnState::restore(serde_json::from_str(json).unwrap());
        assert_eq!(serde_json::to_string(&state.snapshot().unwrap()).unwrap(), json);
        assert_eq!(state.get(&EPISODE).unwrap().unwrap().rounds, 4, "migrated");
        const NEWER: StateKey<u32> = StateKey::new("other/key", 1);
        assert!(matches!(state.get(&NEWER), Err(StateError::Version { found: 9, expected: 1, .. })));
        const WRONG: StateKey<u32> = StateKey::new("other/key", 9);
        assert!(matches!(state.get(&WRONG), Err(StateError::Unreadable { .. })));
        const OTHER: StateKey<u32> = StateKey::new("test.loop/episode", 2);
        assert!(matches!(state.get(&OTHER), Err(StateError::Type { .. })));
    }

    /// Reads the state it lived in when it is dropped.
    #[derive(Serialize, Deserialize)]
    struct Nosy {
        #[serde(skip)]
        lived_in: Option<(TurnState, std::sync::mpsc::Sender<()>)>,
    }
    impl Drop for Nosy {
        fn drop(&mut self) {
            if let Some((state, dropped)) = &self.lived_in {
                state.get(&OTHER).unwrap();
                dropped.send(()).unwrap();
            }
        }
    }
    const NOSY: StateKey<Nosy> = StateKey::new("test/nosy", 1);
    const OTHER: StateKey<u32> = StateKey::new("test/other", 1);

    #[test]
    fn no_lock_is_held_while_a_replaced_value_is_dropped() {
        let (tell, dropped) = std::sync::mpsc::channel();
        // On a thread of its own, so that a deadlock fails the test instead of hanging it.
        std::thread::spawn(move || {
            let state = TurnState::new();
            let nosy = || Nosy { lived_in: Some((state.clone(), tell.clone())) };
            state.set(&NOSY, nosy());
            state.set(&NOSY, nosy());
            state.update(&NOSY, |_| nosy()).unwrap();
            assert!(state.remove(&NOSY));
        });
        for which in ["set", "update", "remove"] {
            let told = dropped.recv_timeout(std::time::Duration::from_secs(20));
            assert!(told.is_ok(), "`{which}` drops the old value under the lock");
        }
    }
}
