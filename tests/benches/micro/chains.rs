//! Calls through a chain: with no layer, one, and eight. A direct call and a boxed one stand beside them.

use std::hint::black_box;

use turnwright_core::{IterationEnd, SessionId, TurnContext};
use turnwright_interceptor::{Around, CallState, Chain, Core, Exit, Next, scope};

use crate::cpu::{Bench, calls};

struct Passes;
impl Around<scope::Iteration> for Passes {
    async fn around(
        &self,
        _: &TurnContext,
        iteration: u32,
        next: Next<'_, scope::Iteration>,
    ) -> Result<IterationEnd, Exit> {
        next.run(iteration).await
    }
}

struct Work;
impl Work {
    async fn work(&self, iteration: u32) -> Result<IterationEnd, Exit> {
        black_box(iteration);
        Ok(IterationEnd::Continue)
    }
}
impl Core<scope::Iteration> for Work {
    async fn call(
        &self,
        _: &TurnContext,
        iteration: u32,
        _: &CallState<scope::Iteration>,
    ) -> Result<IterationEnd, Exit> {
        self.work(iteration).await
    }
}

pub(crate) fn all(c: &mut Bench) {
    let ctx = TurnContext::builder(SessionId::new("s").unwrap()).build();
    let mut group = c.benchmark_group("chain");
    calls(&mut group, "direct", async || black_box(&Work).work(1).await.is_ok());
    calls(&mut group, "boxed", async || {
        let boxed: turnwright_core::BoxFuture<'_, Result<IterationEnd, Exit>> =
            Box::pin(black_box(&Work).work(1));
        boxed.await.is_ok()
    });
    for layers in [0, 1, 8] {
        let chain = Chain::<scope::Iteration>::default();
        for _ in 0..layers {
            chain.register(Passes).keep();
        }
        let id = format!("layers_{layers}");
        calls(&mut group, &id, async || black_box(&chain).call(&ctx, 1, &Work, None).await.is_ok());
    }
    group.finish();
}
