package live

import "sync"

// Topics is what pages are about, such as the sessions of a user.
type Topics struct {
	mu    sync.Mutex
	pages map[string]map[*Page]struct{}
}

// NewTopics returns topics without pages.
func NewTopics() *Topics { return &Topics{pages: map[string]map[*Page]struct{}{}} }

// Page is an open page.
type Page struct {
	topics  *Topics
	about   []string
	changed chan struct{}
}

// Open returns a page about topics, which must be closed.
func (t *Topics) Open(about ...string) *Page {
	p := &Page{topics: t, about: about, changed: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, topic := range about {
		if t.pages[topic] == nil {
			t.pages[topic] = map[*Page]struct{}{}
		}
		t.pages[topic][p] = struct{}{}
	}
	return p
}

// Close removes the page from its topics.
func (p *Page) Close() {
	t := p.topics
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, topic := range p.about {
		delete(t.pages[topic], p)
		if len(t.pages[topic]) == 0 {
			delete(t.pages, topic)
		}
	}
}

// Changed has a value if something that the page is about has changed since it was last received from.
func (p *Page) Changed() <-chan struct{} { return p.changed }

// Mark marks the pages about a topic as changed. It never blocks.
func (t *Topics) Mark(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range t.pages[topic] {
		select {
		case p.changed <- struct{}{}:
		default: // marked already
		}
	}
}

// Len returns the number of topics with open pages.
func (t *Topics) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pages)
}
