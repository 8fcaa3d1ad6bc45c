package main

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"

	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/space"
)

// network is a network of one hidden layer that tells two interlocked half-moons apart.
type network struct {
	LR     float64
	Hidden int
	W      [][3]float64 // of the hidden units: x, y, bias
	V      []float64    // of the output: the units, bias
	Epoch  int
}

// Setup draws the first weights.
func (n *network) Setup(_ context.Context, t *tune.Trial) error {
	var config struct {
		LR     float64 `json:"lr"`
		Hidden int     `json:"hidden"`
	}
	if err := t.Config(&config); err != nil {
		return err
	}
	n.LR, n.Hidden = config.LR, config.Hidden
	r := space.NewStream(2, "weights")
	for range n.Hidden {
		n.W = append(n.W, [3]float64{r.Normal(), r.Normal(), r.Normal()})
		n.V = append(n.V, r.Normal()/float64(n.Hidden))
	}
	n.V = append(n.V, 0)
	return nil
}

// moons returns points and which moon each is of.
func moons(name string, count int) (x [][2]float64, moon []float64) {
	r := space.NewStream(1, name)
	for i := range count {
		a, which := math.Pi*r.Float(), float64(i%2)
		p := [2]float64{math.Cos(a), math.Sin(a)}
		if which == 1 {
			p = [2]float64{1 - p[0], .5 - p[1]}
		}
		x, moon = append(x, [2]float64{p[0] + .1*r.Normal(), p[1] + .1*r.Normal()}), append(moon, which)
	}
	return x, moon
}

func (n *network) guess(p [2]float64) (out float64, hidden []float64) {
	z := n.V[n.Hidden]
	for i, w := range n.W {
		h := math.Tanh(w[0]*p[0] + w[1]*p[1] + w[2])
		hidden = append(hidden, h)
		z += n.V[i] * h
	}
	return 1 / (1 + math.Exp(-z)), hidden
}

// Step trains an epoch and returns the accuracy on other points.
func (n *network) Step(context.Context) (tune.Metrics, error) {
	x, moon := moons("train", 200)
	for i, p := range x {
		out, hidden := n.guess(p)
		slip := n.LR * (moon[i] - out)
		for j, h := range hidden {
			back := slip * n.V[j] * (1 - h*h)
			n.V[j] += slip * h
			n.W[j][0] += back * p[0]
			n.W[j][1] += back * p[1]
			n.W[j][2] += back
		}
		n.V[n.Hidden] += slip
	}
	n.Epoch++
	x, moon = moons("test", 400)
	right := 0
	for i, p := range x {
		if out, _ := n.guess(p); (out > .5) == (moon[i] == 1) {
			right++
		}
	}
	return tune.Metrics{"accuracy": float64(right) / float64(len(x)), "epoch": n.Epoch}, nil
}

const state = "network.json"

// Save writes the weights.
func (n *network) Save(_ context.Context, folder string) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, state), b, 0o600)
}

// Load reads them.
func (n *network) Load(_ context.Context, folder string) error {
	b, err := os.ReadFile(filepath.Join(folder, state))
	if err != nil {
		return err
	}
	lr, hidden := n.LR, n.Hidden
	if err := json.Unmarshal(b, n); err != nil {
		return err
	}
	n.LR, n.Hidden = lr, hidden // a takeover changes them
	return nil
}
