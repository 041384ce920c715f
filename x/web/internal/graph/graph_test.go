package graph

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// The layers, crossings and overlaps of drawings.
func TestLayout(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		nodes int
		edges []Edge
		boxes []Point
		width int
	}{
		"nothing": {},
		"one":     {nodes: 1, boxes: []Point{{0, gapY / 2}}, width: BoxWidth},
		"chain": {
			nodes: 3, edges: []Edge{{0, 1}, {1, 2}}, width: 3*BoxWidth + 2*gapX,
			boxes: []Point{{0, 9}, {BoxWidth + gapX, 9}, {2 * (BoxWidth + gapX), 9}},
		},
		"diamond": {
			nodes: 4, edges: []Edge{{0, 1}, {0, 2}, {1, 3}, {2, 3}}, width: 3*BoxWidth + 2*gapX,
			boxes: []Point{{0, 46}, {240, 9}, {240, 83}, {480, 46}},
		},
		"crossed": { // 1 leads to 2, and 0 to 3
			nodes: 4, edges: []Edge{{1, 2}, {0, 3}}, width: 2*BoxWidth + gapX,
			boxes: []Point{{0, 9}, {0, 83}, {240, 83}, {240, 9}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Layout(tt.nodes, tt.edges)
			if !reflect.DeepEqual(d.Boxes, tt.boxes) || d.Width != tt.width {
				t.Errorf("boxes %v, want %v; width %d", d.Boxes, tt.boxes, d.Width)
			}
			if got := crossingsOf(d, tt.edges); got != 0 {
				t.Errorf("%d crossings: %v", got, d)
			}
		})
	}
}

// crossingsOf counts the edges between adjacent layers that cross.
func crossingsOf(d *Drawing, edges []Edge) (n int) {
	for i, e := range edges {
		for _, f := range edges[:i] {
			if d.Boxes[e.From].X != d.Boxes[f.From].X || d.Boxes[e.To].X != d.Boxes[f.To].X {
				continue
			}
			if (d.Boxes[e.From].Y-d.Boxes[f.From].Y)*(d.Boxes[e.To].Y-d.Boxes[f.To].Y) < 0 {
				n++
			}
		}
	}
	return n
}

// Random graphs, also of the size of the largest flow: boxes do not overlap and are in the drawing,
// edges lead to the right, and the result is the same each time.
func TestRandomGraphs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(40)
		if seed == 0 {
			n = 1000
		}
		edges := random(r, n)
		start := time.Now()
		d := Layout(n, edges)
		if took := time.Since(start); took > 10*time.Second { // some milliseconds
			t.Errorf("seed %d: %d nodes took %v", seed, n, took)
		}
		for i, p := range d.Boxes {
			if p.X < 0 || p.Y < 0 || p.X+BoxWidth > d.Width || p.Y+BoxHeight > d.Height {
				t.Errorf("seed %d: box %v is not in %d by %d", seed, p, d.Width, d.Height)
			}
			for _, q := range d.Boxes[:i] {
				if p.X == q.X && p.Y < q.Y+BoxHeight && q.Y < p.Y+BoxHeight {
					t.Errorf("seed %d: boxes %v and %v overlap", seed, p, q)
				}
			}
		}
		for i, line := range d.Lines {
			for k := range line[1:] {
				if line[k+1].X < line[k].X {
					t.Errorf("seed %d: the line of %v goes back: %v", seed, edges[i], line)
				}
			}
		}
		if again := Layout(n, edges); !reflect.DeepEqual(d, again) {
			t.Errorf("seed %d: another drawing", seed)
		}
	}
}

func random(r *rand.Rand, n int) (edges []Edge) {
	for to := 1; to < n; to++ {
		for range r.IntN(4) {
			edges = append(edges, Edge{r.IntN(to), to})
		}
	}
	return edges
}

func TestInversions(t *testing.T) {
	t.Parallel()
	if got := inversions([]int{2, 0, 1, 2, 0}, 3); got != 5 {
		t.Errorf("%d inversions, want 5", got)
	}
}
