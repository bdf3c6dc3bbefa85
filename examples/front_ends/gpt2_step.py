"""A training step of a two-layer GPT-2 by torch.compile, against the same step without it."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

WORDS, LENGTH, WIDTH, HEADS = 512, 64, 128, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.qkv(self.before_attention(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.before_mlp(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.norm = nn.Sequential(Block(), Block()), nn.LayerNorm(WIDTH)

    def forward(self, x, y):
        places = torch.arange(x.shape[1], device=x.device)
        logits = self.norm(self.blocks(self.words(x) + self.places(places))) @ self.words.weight.T
        return F.cross_entropy(logits.view(-1, WORDS), y.view(-1))


torch.manual_seed(0)
plain = GPT2().to("cuda")
model = copy.deepcopy(plain)
x, y = torch.randint(WORDS, (2, 1, LENGTH), device="cuda")
right, loss = plain(x, y), torch.compile(model)(x, y)
right.backward()
loss.backward()

errors = [abs(float(loss - right))]
for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
    errors.append(float((mine.grad - other.grad).abs().max() / other.grad.abs().max()))
print("largest error:", max(errors))
