//! Loops of a plan, iteration by iteration: a GPU walks through lists of tiles, which are data, so a loop becomes a longer
//! list. Functions are made once for each text, and the kernels of all iterations have the same text.

use crate::plan::{BufId, Buffer, Kernel, Place, Plan};

/// The kernels of a plan in the order they run, with places in buffers that have memory of their own.
pub(super) fn kernels(plan: &Plan) -> Vec<Kernel> {
    let mut all = vec![];
    unroll(&plan.kernels, &plan.buffers, 0, &mut all);
    all
}

/// How many kernels they are.
pub(super) fn count(kernels: &[Kernel]) -> usize {
    let each = |kernel: &Kernel| match kernel {
        Kernel::Loop(l) => l.length.saturating_mul(count(&l.kernels)).saturating_add(l.before.len()),
        _ => 1,
    };
    kernels.iter().map(each).fold(0, usize::saturating_add)
}

fn unroll(kernels: &[Kernel], buffers: &[Buffer], row: usize, all: &mut Vec<Kernel>) {
    for kernel in kernels {
        if let Kernel::Loop(l) = kernel {
            unroll(&l.before, buffers, row, all);
            l.rows().for_each(|row| unroll(&l.kernels, buffers, row, all));
        } else {
            let mut kernel = kernel.clone();
            move_to(&mut kernel, &|buf| shown(buf, buffers, row));
            all.push(kernel);
        }
    }
}

/// The buffer that holds what this one shows in a row, and the first element there.
fn shown(buf: BufId, buffers: &[Buffer], row: usize) -> Place {
    let (mut place, mut next) = (Place { buf, first: 0 }, buffers[buf.0 as usize].window);
    while let Some(w) = next {
        let first = (place.first + w.first).wrapping_add_signed(row as isize * w.step);
        place = Place { buf: w.of, first };
        next = buffers[w.of.0 as usize].window;
    }
    place
}

/// Put a kernel's operands and results where their buffers really are.
fn move_to(kernel: &mut Kernel, shown: &impl Fn(BufId) -> Place) {
    let to_place = |p: &mut Place| {
        let Place { buf, first } = shown(p.buf);
        *p = Place { buf, first: first + p.first };
    };
    match kernel {
        Kernel::Map(m) => {
            m.loads.iter_mut().for_each(|l| to_place(&mut l.place));
            m.stores.iter_mut().for_each(|s| to_place(&mut s.to));
            m.reduces.iter_mut().for_each(|r| to_place(&mut r.to));
        }
        Kernel::MatMul(m) => {
            for t in &mut m.terms {
                let (a, b) = (shown(t.a), shown(t.b));
                (t.a, t.b) = (a.buf, b.buf);
                t.items.iter_mut().for_each(|i| *i = (i.0 + a.first, i.1 + b.first));
            }
            to_place(&mut m.to);
        }
        Kernel::Copy { from, to, zero_first, .. } => {
            to_place(&mut from.place);
            to_place(&mut to.place);
            zero_first.iter_mut().for_each(|z| to_place(&mut z.0));
        }
        Kernel::Conv(c) => {
            c.from.iter_mut().for_each(to_place);
            to_place(&mut c.to);
        }
        Kernel::Combine { from, to, .. }
        | Kernel::CumSum { from, to, .. }
        | Kernel::Cholesky { from, to, .. }
        | Kernel::Resize { from, to, .. } => {
            to_place(from);
            to_place(to);
        }
        Kernel::TriSolve { a, b, to, .. } => [a, b, to].into_iter().for_each(to_place),
        Kernel::Index { from, index, to, .. } => [from, index, to].into_iter().for_each(to_place),
        Kernel::Noise { iteration, to, .. } => iteration.iter_mut().chain([to]).for_each(to_place),
        Kernel::External { z, v, to, .. } => v.iter_mut().chain([z, to]).for_each(to_place),
        Kernel::SumParts { from, to, .. } => [from, to].into_iter().for_each(to_place),
        Kernel::Loop(_) => unreachable!("loops are unrolled"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Around, Executor, Memory};
    use crate::shape::DType;
    use crate::{Array, Graph, grad, plan};

    struct Nothing;
    impl Around for Nothing {
        fn before(&mut self, _: usize, _: &mut Memory<'_>) {}
        fn after(&mut self, _: usize, _: &mut Memory<'_>) {}
    }

    /// What a plan computes, on the CPU.
    fn outputs(plan: &Plan) -> Vec<Vec<u8>> {
        let mut executor = Executor::new(plan, 1).unwrap();
        executor.run(plan, 5, 0, 2, &mut Nothing).1.unwrap();
        let memory = executor.memory(plan);
        plan.outputs.iter().map(|o| memory.get(o.place, o.shape.size()).to_vec()).collect()
    }

    #[test]
    fn a_loop_and_its_iterations_compute_the_same() {
        let g = Graph::new();
        let of = |n: usize, by: f64| (0..n).map(|i| (i as f64 * by).sin()).collect::<Vec<f64>>();
        let z = g.literal(Array::new([3, 4], of(12, 1.3)).unwrap());
        let w = g.literal(Array::new([4, 4], of(16, 0.7)).unwrap());
        let x = g.literal(Array::new([4, 5], of(20, 2.1)).unwrap()).t();
        let index = g.literal(Array::new([5, 3], (0..15).map(|i| i % 4).collect::<Vec<i32>>()).unwrap());
        let (last, ys) = g.scan(5, &[z], &[x, index], |c, x| {
            let noise = g.normal(1, DType::F64, [3]);
            let (inner, _) = g.scan(3, &[c[0].sum(&[0])], &[], |d, _| (vec![(d[0] + x[0]).tanh()], vec![]));
            let next = (c[0].matmul(w) + inner[0]).sin() + x[0].take(0, x[1]).cumsum(0).reshape([3, 1]);
            (vec![next], vec![next.sum(&[1]) * noise])
        });
        let y = last[0].sum_all() + ys[0].square().sum_all();
        let d = grad(y, &[z, w, x]).unwrap();
        let dd = grad(d[0].square().sum_all() + d[2].sum_all(), &[z, w]).unwrap();
        let all: Vec<_> = d.iter().chain(&dd).chain(&ys).enumerate().map(|(i, e)| (i.to_string(), e.id())).collect();
        let plan = plan::plan(&g, &all, &[]);
        let kernels = kernels(&plan);
        assert_eq!(kernels.len(), count(&plan.kernels));
        let levels = (0..kernels.len()).map(|i| i..i + 1).collect();
        assert_eq!(outputs(&Plan { kernels, levels, ..plan.clone() }), outputs(&plan));
    }
}
