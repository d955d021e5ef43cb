"""SIVI-SM as one writes it in eager PyTorch: the peer that fits are timed against."""

import abc
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LoopSettings:
    """What a loop is made of.

    Attributes:
        dim: Length of x.
        num_particles: Draws per update of either player.
        latent: Length of z.
        hidden: Width of the two hidden layers of μ.
        critic_hidden: Width of those of the critic.
        decay_every: Updates after which both rates are multiplied by 0.9.
        psi_divisor: Of ψ, which starts at 1.
        psi_every: Updates between two divisions.
    """

    dim: int
    num_particles: int
    latent: int
    hidden: int
    critic_hidden: int
    decay_every: int
    psi_divisor: float
    psi_every: int


class MinimaxLoop(abc.ABC):
    """Modules, and an optimiser and a scheduler per player.

    It has no reads by the host or copies, one backward pass per player with gradients of that player's parameters
    alone, no graph for the critic's draws, and the closed form of the target's score.
    """

    def __init__(self, settings: LoopSettings, device: str, seed: int):
        import torch

        self.torch, self.settings, self.device = torch, settings, torch.device(device)
        torch.manual_seed(seed)
        self.mean = self._network(settings.latent, settings.hidden, settings.hidden, settings.dim)
        self.critic = self._network(settings.dim, settings.critic_hidden, settings.critic_hidden, settings.dim)
        self.log_variance = torch.zeros(settings.dim, device=self.device, requires_grad=True)
        self.family = [*self.mean.parameters(), self.log_variance]
        self.optimizer, self.critic_optimizer = self.optimizers(self.family, list(self.critic.parameters()))
        self.schedulers = [
            torch.optim.lr_scheduler.StepLR(o, settings.decay_every, 0.9)
            for o in (self.optimizer, self.critic_optimizer)
        ]
        self.done, self.psi = 0, 1.0

    @abc.abstractmethod
    def optimizers(self, family: list[Any], critic: list[Any]) -> tuple[Any, Any]:
        """The optimisers of the two players' parameters."""

    @abc.abstractmethod
    def score(self, x: Any) -> Any:
        """The target's score at many points, with the data of the present update."""

    def _network(self, *widths: int) -> Any:
        nn = self.torch.nn  # whose layers start uniform in ±1/√fan_in, as the paper's
        layers = [nn.Linear(a, b) for a, b in zip(widths[:-1], widths[1:], strict=True)]
        return nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1]).to(self.device)

    def draw(self, num: int) -> tuple[Any, Any, Any]:
        """x, and the scores at it of the target and of the conditional, the latter with its sign changed."""
        z = self.torch.randn(num, self.settings.latent, device=self.device)
        eps = self.torch.randn(num, self.settings.dim, device=self.device)
        sigma = self.torch.exp(0.5 * self.log_variance.clamp(min=-6.0))
        x = self.mean(z) + sigma * eps
        return x, self.score(x), eps / sigma

    def loss(self, x: Any, score: Any, conditional: Any) -> Any:
        g = self.critic(x) + self.psi * score
        return (g * (2.0 * (score + conditional) - g)).sum(1).mean()

    def update(self) -> None:
        loss = self.loss(*self.draw(self.settings.num_particles))
        for parameter, grad in zip(self.family, self.torch.autograd.grad(loss, self.family), strict=True):
            parameter.grad = grad
        self.optimizer.step()
        with self.torch.no_grad():
            drawn = self.draw(self.settings.num_particles)
        self.critic_optimizer.zero_grad()
        (-self.loss(*drawn)).backward()
        self.critic_optimizer.step()
        for scheduler in self.schedulers:
            scheduler.step()
        self.done += 1
        if self.done % self.settings.psi_every == 0:
            self.psi /= self.settings.psi_divisor

    def run(self, num_updates: int) -> None:
        for _ in range(num_updates):
            self.update()
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()
