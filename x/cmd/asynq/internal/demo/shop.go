package demo

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

var (
	firstNames = []string{"Ada", "Alan", "Barbara", "Clara", "Dennis", "Edsger", "Frances", "Grace", "Hedy", "Ivan", "Jean", "Katherine", "Leslie", "Margaret", "Niklaus", "Radia", "Søren", "Tony", "Yukihiro", "Zoë"}
	lastNames  = []string{"Adams", "Berg", "Costa", "Dubois", "Eriksson", "Fischer", "García", "Haddad", "Ito", "Jensen", "Kowalski", "Lindqvist", "Müller", "Novák", "O'Brien", "Park", "Rossi", "Şahin", "Tanaka", "Weber"}
	categories = []string{"books", "garden", "kitchen", "music", "toys"}
	things     = []string{"kettle", "lamp", "notebook", "headphones", "tent", "chess set", "fern", "teapot", "guitar strings", "blanket"}
	locales    = []string{"en-GB", "de-DE", "fr-FR", "pt-BR", "ja-JP"}
	partners   = []string{"hooks.parcel.example", "api.ledger.example", "events.loyalty.example", "in.warehouse.example"}
)

// shop generates customers, orders and products. It is not safe for concurrent use.
type shop struct {
	*rand.Rand
	order int64
}

func newShop(seed uint64) *shop {
	return &shop{Rand: rand.New(rand.NewPCG(seed, 1)), order: 480_000} //nolint:gosec // not used for security
}

// of returns a random item.
func of[T any](s *shop, some []T) T { return some[s.IntN(len(some))] }

type customer struct {
	ID     int    `json:"id"`
	Name   string `json:"name"`
	Email  string `json:"email"`
	Locale string `json:"locale"`
}

func (s *shop) customer() customer {
	first, last := of(s, firstNames), of(s, lastNames)
	ascii := strings.Map(func(c rune) rune {
		if c < 'a' || c > 'z' {
			return -1
		}
		return c
	}, strings.ToLower(first+last))
	id := 10_000 + s.IntN(40_000)
	return customer{ID: id, Name: first + " " + last, Email: fmt.Sprintf("%s%d@example.com", ascii, id%100), Locale: of(s, locales)}
}

type item struct {
	SKU      string `json:"sku"`
	Title    string `json:"title"`
	Category string `json:"category"`
	Quantity int    `json:"quantity,omitempty"`
	Cents    int    `json:"price_cents"`
}

func (s *shop) item() item {
	return item{SKU: fmt.Sprintf("SKU-%05d", s.IntN(20_000)), Title: of(s, things), Category: of(s, categories), Quantity: 1 + s.IntN(3), Cents: 199 + s.IntN(15_000)}
}

func (s *shop) items(n int) []item {
	all := make([]item, n)
	for i := range all {
		all[i] = s.item()
	}
	return all
}

func (s *shop) nextOrder() int64 {
	s.order++
	return s.order
}

// hex returns n random bytes in hex.
func (s *shop) hex(n int) string { return fmt.Sprintf("%x", s.bytes(n)) }

func (s *shop) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.Uint32())
	}
	return b
}

// encode returns v as JSON. It panics if v cannot be encoded.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
