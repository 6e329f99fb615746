"""Training loop of the PyTorch peers: eager autograd and the fused CPU Adam.

Import after `protocol.options`. Nothing is compiled, so compile_seconds is 0.
"""
import numpy as np
import torch


class Engine:
    """`loss(params, e, *fixed)` with params a dict of tensors in the order of `start`."""

    compile_seconds = 0.0

    def __init__(self, args, loss, start, fixed, noise_shape, rate):
        torch.set_num_threads(args.threads)
        torch.manual_seed(args.seed)
        self.loss, self.noise_shape = loss, noise_shape
        self.fixed = [torch.from_numpy(f) for f in fixed]
        self.params = {name: torch.from_numpy(value).requires_grad_() for name, value in start.items()}
        self.size = sum(p.numel() for p in self.params.values())
        self.dtype = next(iter(self.params.values())).dtype
        self.adam = torch.optim.Adam(list(self.params.values()), lr=rate, fused=True)

    def steps(self, n):
        for _ in range(n):
            e = torch.randn(self.noise_shape, dtype=self.dtype)
            self.adam.zero_grad(set_to_none=True)
            value = self.loss(self.params, e, *self.fixed)
            value.backward()
            self.adam.step()
        return value.detach()

    def check(self, flat, *inputs):
        *fixed, e0, e1 = (torch.from_numpy(i) for i in inputs)
        parts = torch.from_numpy(flat).split([p.numel() for p in self.params.values()])
        params = {name: part.reshape(p.shape).clone().requires_grad_()
                  for (name, p), part in zip(self.params.items(), parts)}
        value = self.loss(params, torch.stack([e0, e1]), *fixed)
        value.backward()
        return value.detach(), np.concatenate([p.grad.numpy().ravel() for p in params.values()])
