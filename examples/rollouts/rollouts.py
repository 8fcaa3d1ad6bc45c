"""A policy learns from rollouts of ten simulators, each an actor: python3 rollouts.py"""

import sys

import cascade


class Environment:
    """A ball on a saddle, which rolls off by itself: a simulator with the methods that those of gymnasium have."""

    def __init__(self, seed):
        self.random, self.x, self.v = seed, 0.0, 0.0
        self.reset()

    def reset(self):
        """Places the ball beside the middle, each time elsewhere."""
        self.random = (self.random * 1103515245 + 12345) % 2**31
        self.x, self.v = self.random / 2**31 - 0.5, 0.0
        return self.current_state(), {}

    def current_state(self):
        return [self.x, self.v]

    def step(self, action):
        """Pushes the ball: (observation, reward, terminated, truncated, info)."""
        self.v += (self.x + action) * 0.125
        self.x += self.v * 0.125
        lost = abs(self.x) > 1
        if lost:
            self.reset()
        return self.current_state(), -1.0 if lost else 0.0, lost, False, {}


class Policy:
    """Pushes against where the ball is and where it goes."""

    def __init__(self, gain):
        self.gain = gain

    def __call__(self, observation):
        x, v = observation
        return min(max(-self.gain * (x + v), -1.0), 1.0)


@cascade.remote
def create_policy():
    return Policy(0.0)


@cascade.remote
class Simulator:
    def __init__(self, seed):
        self.env = Environment(seed)

    def rollout(self, policy, num_steps):
        observations = []
        observation = self.env.current_state()
        for _ in range(num_steps):
            action = policy(observation)
            observation, *_ = self.env.step(action)
            observations.append(observation)
        return observations


@cascade.remote
def update_policy(policy, *rollouts):
    away = sum(abs(x) for rollout in rollouts for x, _ in rollout) / sum(map(len, rollouts))
    return Policy(policy.gain + 0.125 * away)  # the further the balls are, the harder it pushes


@cascade.remote
def train_policy(simulators, steps):
    policy_id = create_policy.remote()
    simulators = [Simulator.remote(seed) for seed in range(simulators)]
    for _ in range(steps):
        rollout_ids = [s.rollout.remote(policy_id, 20) for s in simulators]
        policy_id = update_policy.remote(policy_id, *rollout_ids)
    return cascade.get(policy_id)


if __name__ == "__main__":
    simulators, steps = map(int, sys.argv[1:] or (10, 100))
    with cascade.init():
        policy = cascade.get(train_policy.remote(simulators, steps))
        print(f"gain {policy.gain:.12f} after {steps} steps of {simulators} simulators")
