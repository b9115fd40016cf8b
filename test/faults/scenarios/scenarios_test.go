package scenarios

import "testing"

func TestScenariosAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		if s.Name == "" || s.Do == nil || seen[s.Name] {
			t.Errorf("scenario %q has no function, or its name twice", s.Name)
		}
		if s.Kind.Enroll && !s.Alone {
			t.Errorf("scenario %s needs a fleet that joins by token, which no other may share: set Alone", s.Name)
		}
		seen[s.Name] = true
	}
}
