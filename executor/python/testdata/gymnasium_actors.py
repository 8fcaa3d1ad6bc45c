"""Simulators of gymnasium as actors: each goes on where it was, and equal seeds give equal rollouts."""

import os
import sys

import cascade
import gymnasium


@cascade.remote
class Simulator:
    def __init__(self, name, seed):
        self.env = gymnasium.make(name)
        self.observation, _ = self.env.reset(seed=seed)
        self.lost = 0

    def rollout(self, gain, num_steps):
        reward = 0.0
        for _ in range(num_steps):
            action = int(self.observation[2] + gain * self.observation[3] > 0)
            self.observation, r, terminated, truncated, _ = self.env.step(action)
            reward += float(r)
            if terminated or truncated:
                self.lost += terminated
                self.observation, _ = self.env.reset()
        return reward, self.observation

    def count(self):
        return int(self.lost)


os.environ["PATH"] = sys.argv[1] + os.pathsep + os.environ["PATH"]
with cascade.init(cpu=2):
    simulators = [Simulator.remote("CartPole-v1", seed) for seed in (1, 2, 1)]
    for gain in (0.0, 1.0):
        ends = cascade.get([s.rollout.remote(gain, 200) for s in simulators])
        print(gain, [reward for reward, _ in ends], (ends[0][1] == ends[2][1]).all(), (ends[0][1] == ends[1][1]).all())
    lost = cascade.get([s.count.remote() for s in simulators])
    print(lost[0] == lost[2], all(n > 0 for n in lost))
