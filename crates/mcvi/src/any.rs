//! Implementations of a trait as data: built-in kinds by name, a user's own kinds by an identity.
//!
//! A chain is a value. It can be compared, printed, written to a file and read back, so its parts must be data too, and
//! yet open to everyone. [`any!`] makes an enum of the built-in kinds, with a last variant for a user's own.

use crate::error::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// A user's own implementation of a trait.
///
/// Only its identity is written to a file. Read back, it takes part in comparisons but cannot be run: to load such a
/// chain, supply it again.
pub struct Own<T: ?Sized> {
    identity: Value,
    given: Option<Arc<T>>,
}

impl<T: ?Sized> Own<T> {
    /// An implementation and its identity.
    pub(crate) fn new(identity: Value, given: Arc<T>) -> Self {
        Own { identity, given: Some(given) }
    }

    /// The implementation, unless this was read from a file.
    pub(crate) fn get(&self) -> Result<&T> {
        self.given.as_deref().ok_or_else(|| Error::Setting {
            what: "chain",
            why: format!("it was read from a file, which cannot hold your own {}; supply the chain", self.identity),
        })
    }
}

impl<T: ?Sized> Clone for Own<T> {
    fn clone(&self) -> Self {
        Own { identity: self.identity.clone(), given: self.given.clone() }
    }
}

impl<T: ?Sized> PartialEq for Own<T> {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

impl<T: ?Sized> fmt::Debug for Own<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Own({})", self.identity)
    }
}

/// The form in which it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    identity: Value,
}

impl<T: ?Sized> Serialize for Own<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Written { identity: self.identity.clone() }.serialize(to)
    }
}

impl<'de, T: ?Sized> Deserialize<'de> for Own<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Own { identity: Written::deserialize(from)?.identity, given: None })
    }
}

/// An enum of the built-in kinds of a trait, and one of the user's own.
macro_rules! any {
    ($(#[$meta:meta])* $any:ident is $trait:ident: $($kind:ident),+ $(,)?) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        // There are a handful of them in a chain: their size does not matter.
        #[allow(clippy::large_enum_variant)]
        #[non_exhaustive]
        pub enum $any {
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $kind($kind),)+
            /// A user's own kind.
            Own($crate::Own<dyn $trait>),
        }

        impl $any {
            /// The implementation to run.
            fn get(&self) -> $crate::Result<&dyn $trait> {
                match self {
                    $($any::$kind(kind) => Ok(kind),)+
                    $any::Own(own) => own.get(),
                }
            }
        }

        $(impl From<$kind> for $any {
            fn from(kind: $kind) -> Self {
                $any::$kind(kind)
            }
        })+
    };
}
pub(crate) use any;
