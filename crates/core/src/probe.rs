//! What the macros that probe types share: `hook!` and `interceptor!` ask of each trait in turn whether a type implements
//! it, and must not compile when it implements none.

use std::marker::PhantomData;

/// The type implements the trait.
pub struct Yes;
/// It does not.
pub struct No;

/// Yes if either is.
pub trait Or<B> {
    /// The answer.
    type Out;
}
impl<B> Or<B> for Yes {
    type Out = Yes;
}
impl<B> Or<B> for No {
    type Out = B;
}

/// The answers so far, as a type.
pub struct Found<A>(PhantomData<A>);

impl Found<No> {
    /// Nothing was asked yet.
    pub const NOTHING: Self = Self(PhantomData);
}

impl<A> Found<A> {
    /// One more answer.
    pub fn or<B>(self, _: B) -> Found<A::Out>
    where
        A: Or<B>,
    {
        Found(PhantomData)
    }
}
