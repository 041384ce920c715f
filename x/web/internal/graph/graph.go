// Package graph computes drawings of directed acyclic graphs, from left to right.
package graph

import (
	"cmp"
	"math"
	"slices"
)

// The sizes of a drawing, in pixels.
const (
	BoxWidth  = 184
	BoxHeight = 56
	gapX      = 56 // between layers
	gapY      = 18 // between boxes of a layer
	wireGap   = 14 // of edges that pass a layer
)

// Point is a position in a drawing.
type Point struct{ X, Y int }

// Edge leads from one node to another one, by their indices.
type Edge struct{ From, To int }

// Drawing is where nodes and edges are drawn.
type Drawing struct {
	Width, Height int
	Boxes         []Point   // the upper left corner of the box of each node
	Lines         [][]Point // of each edge, from the right side of a box to the left side of another
}

// place is a node, or a point of a layer that an edge passes.
type place struct {
	node   int // -1: none
	layer  int
	at     int     // its position in the layer
	y      float64 // of its center
	height float64
	in     []*place
	out    []*place
}

const (
	// sweeps is how often the order in the layers is improved.
	sweeps = 12
	// mostPlaces limits the effort: in larger graphs, edges pass layers without own places.
	mostPlaces = 4000
)

// Layout draws n nodes with edges, which must not form a cycle. A node is to the right of all nodes
// that lead to it: its layer is the length of the longest path to it. In a layer, the order is that
// of the average positions of the neighbors, which avoids crossings (Sugiyama, Tagawa, Toda 1981).
func Layout(n int, edges []Edge) *Drawing {
	layer := layersOf(n, edges)
	places := make([]*place, n)
	layers := make([][]*place, slices.Max(append(layer, 0))+1)
	add := func(node, at int, height float64) *place {
		p := &place{node: node, layer: at, height: height}
		layers[at] = append(layers[at], p)
		return p
	}
	for i := range n {
		places[i] = add(i, layer[i], BoxHeight+gapY)
	}
	extra := 0
	for _, e := range edges {
		extra += layer[e.To] - layer[e.From] - 1
	}
	paths := make([][]*place, len(edges))
	for i, e := range edges {
		last := places[e.From]
		for at := layer[e.From] + 1; at < layer[e.To] && n+extra <= mostPlaces; at++ {
			next := add(-1, at, wireGap)
			connect(last, next)
			paths[i], last = append(paths[i], next), next
		}
		connect(last, places[e.To])
	}
	for _, l := range layers {
		number(l)
	}
	untangle(layers)
	spread(layers)
	return draw(places, layers, edges, paths)
}

// layersOf returns the length of the longest path to each node.
func layersOf(n int, edges []Edge) []int {
	layer, waits := make([]int, n), make([]int, n)
	out := make([][]int, n)
	for _, e := range edges {
		out[e.From] = append(out[e.From], e.To)
		waits[e.To]++
	}
	var ready []int
	for i := range n {
		if waits[i] == 0 {
			ready = append(ready, i)
		}
	}
	for ; len(ready) > 0; ready = ready[1:] {
		for _, to := range out[ready[0]] {
			layer[to] = max(layer[to], layer[ready[0]]+1)
			if waits[to]--; waits[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
	return layer
}

func connect(from, to *place) {
	from.out, to.in = append(from.out, to), append(to.in, from)
}

func number(layer []*place) {
	for i, p := range layer {
		p.at = i
	}
}

// untangle orders the layers, and keeps the order with the fewest crossings.
func untangle(layers [][]*place) {
	best, least := snapshot(layers), crossings(layers)
	for sweep := 0; sweep < sweeps && least > 0; sweep++ {
		for i := range layers {
			if sweep%2 == 0 {
				order(layers[i], func(p *place) []*place { return p.in })
			} else {
				order(layers[len(layers)-1-i], func(p *place) []*place { return p.out })
			}
		}
		if n := crossings(layers); n < least {
			best, least = snapshot(layers), n
		}
	}
	for i, l := range best {
		layers[i] = l
		number(l)
	}
}

func snapshot(layers [][]*place) [][]*place {
	out := make([][]*place, len(layers))
	for i, l := range layers {
		out[i] = slices.Clone(l)
	}
	return out
}

// order sorts a layer by the average positions of neighbors. Places without neighbors stay.
func order(layer []*place, neighbors func(*place) []*place) {
	average := make(map[*place]float64, len(layer))
	for _, p := range layer {
		average[p] = float64(p.at)
		if all := neighbors(p); len(all) > 0 {
			sum := 0.0
			for _, q := range all {
				sum += float64(q.at)
			}
			average[p] = sum / float64(len(all))
		}
	}
	slices.SortStableFunc(layer, func(a, b *place) int { return cmp.Compare(average[a], average[b]) })
	number(layer)
}

// crossings counts the pairs of edges between adjacent layers that cross.
func crossings(layers [][]*place) int {
	total := 0
	for i, l := range layers[:len(layers)-1] {
		var ends []int // of the edges, ordered by their beginnings
		for _, p := range l {
			from := len(ends)
			for _, q := range p.out {
				if q.layer == i+1 {
					ends = append(ends, q.at)
				}
			}
			slices.Sort(ends[from:])
		}
		total += inversions(ends, len(layers[i+1]))
	}
	return total
}

// inversions counts the pairs of numbers below n that are in the wrong order, with a Fenwick tree.
func inversions(numbers []int, n int) (total int) {
	tree := make([]int, n+1)
	for seen, at := range numbers {
		notAbove := 0
		for i := at + 1; i > 0; i -= i & -i {
			notAbove += tree[i]
		}
		total += seen - notAbove
		for i := at + 1; i <= n; i += i & -i {
			tree[i]++
		}
	}
	return total
}

// spread sets the vertical positions: near those of the neighbors, in order, without overlaps.
func spread(layers [][]*place) {
	for _, l := range layers {
		y := 0.0
		for _, p := range l {
			p.y = y + p.height/2
			y += p.height
		}
		for _, p := range l {
			p.y -= y / 2 // layers are centered
		}
	}
	for sweep := range 8 {
		for i := range layers {
			l, neighbors := layers[i], func(p *place) []*place { return p.in }
			if sweep%2 == 1 {
				l, neighbors = layers[len(layers)-1-i], func(p *place) []*place { return p.out }
			}
			settle(l, neighbors)
		}
	}
}

// settle moves the places of a layer to the average height of their neighbors, as near as the order
// and the distances allow: the isotonic regression of the offsets, by pooling adjacent violators.
func settle(layer []*place, neighbors func(*place) []*place) {
	type pool struct {
		sum  float64
		size int
	}
	var pools []pool
	offsets, offset := make([]float64, len(layer)), 0.0
	for i, p := range layer {
		if i > 0 {
			offset += (layer[i-1].height + p.height) / 2
		}
		offsets[i] = offset
		want := p.y
		if all := neighbors(p); len(all) > 0 {
			sum := 0.0
			for _, q := range all {
				sum += q.y
			}
			want = sum / float64(len(all))
		}
		pools = append(pools, pool{want - offset, 1})
		for k := len(pools) - 1; k > 0 && pools[k-1].sum/float64(pools[k-1].size) > pools[k].sum/float64(pools[k].size); k-- {
			pools[k-1].sum, pools[k-1].size = pools[k-1].sum+pools[k].sum, pools[k-1].size+pools[k].size
			pools = pools[:k]
		}
	}
	i := 0
	for _, group := range pools {
		for range group.size {
			layer[i].y = group.sum/float64(group.size) + offsets[i]
			i++
		}
	}
}

// draw converts places to a drawing.
func draw(places []*place, layers [][]*place, edges []Edge, paths [][]*place) *Drawing {
	top, bottom := math.Inf(1), math.Inf(-1)
	for _, l := range layers {
		for _, p := range l {
			top, bottom = min(top, p.y-p.height/2), max(bottom, p.y+p.height/2)
		}
	}
	if len(places) == 0 {
		top, bottom = 0, 0
	}
	left := func(layer int) int { return layer * (BoxWidth + gapX) }
	center := func(p *place) int { return int(math.Round(p.y - top)) }
	d := &Drawing{Height: int(math.Ceil(bottom - top))}
	if len(places) > 0 {
		d.Width = left(len(layers)-1) + BoxWidth
	}
	for _, p := range places {
		d.Boxes = append(d.Boxes, Point{left(p.layer), center(p) - BoxHeight/2})
	}
	for i, e := range edges {
		from, to := places[e.From], places[e.To]
		line := []Point{{left(from.layer) + BoxWidth, center(from)}}
		for _, p := range paths[i] {
			line = append(line, Point{left(p.layer), center(p)}, Point{left(p.layer) + BoxWidth, center(p)})
		}
		d.Lines = append(d.Lines, append(line, Point{left(to.layer), center(to)}))
	}
	return d
}
