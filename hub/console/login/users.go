package login

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
	"sigs.k8s.io/yaml"
)

// UsersFile is a file of users with passwords, for trials.
type UsersFile struct {
	// Path of the file. It is read at every login, so that changes take effect at once.
	Path string
	// attempts are the limits of each user name.
	attempts *lru.Cache
}

// fileUser is a user in the file.
type fileUser struct {
	// Login is what the user logs in with. Defaults to Name.
	Login string `json:"login,omitempty"`
	// Name of the user, as the API server knows it.
	Name string `json:"name"`
	// PasswordHash is the bcrypt hash of the password.
	PasswordHash string `json:"passwordHash"`
	// Groups of the user.
	Groups []string `json:"groups,omitempty"`
}

// Limits of the attempts of a user name, and how many names are remembered.
const (
	attemptsPerMinute = 5
	maxNames          = 8192
)

// Errors of a login by password.
var (
	// ErrWrongPassword: the user does not exist, or has another password.
	ErrWrongPassword = errors.New("user or password is wrong")
	// ErrTooManyAttempts: the user name was tried five times within a minute.
	ErrTooManyAttempts = errors.New("there were too many attempts: try again in a minute")
)

// NewUsersFile returns the users of a file, which must exist and be valid.
func NewUsersFile(path string) (*UsersFile, error) {
	f := &UsersFile{Path: path, attempts: lru.New(maxNames)}
	_, err := f.read()
	return f, err
}

// Login returns the identity of a user. Its error is ErrWrongPassword, ErrTooManyAttempts, or one of the file.
func (f *UsersFile) Login(name, password string, now time.Time, lifetime time.Duration) (Identity, error) {
	if !f.limiter(name).AllowN(now, 1) {
		return Identity{}, ErrTooManyAttempts
	}
	users, err := f.read()
	if err != nil {
		return Identity{}, err
	}
	found, ok := users[name]
	if !ok {
		// As long as for a user that exists, so that names cannot be guessed by the time that it takes.
		found.PasswordHash = nobody
	}
	if err := bcrypt.CompareHashAndPassword([]byte(found.PasswordHash), []byte(password)); err != nil || !ok {
		return Identity{}, ErrWrongPassword
	}
	return New(found.Name, found.Groups, now, lifetime)
}

// nobody is the hash of a password that nobody has.
var nobody = func() string {
	hash, err := bcrypt.GenerateFromPassword([]byte("nobody"), bcrypt.DefaultCost)
	if err != nil {
		panic(err) // only for a password of more than 72 bytes
	}
	return string(hash)
}()

// limiter returns the limit of a user name.
func (f *UsersFile) limiter(name string) *rate.Limiter {
	if known, ok := f.attempts.Get(name); ok {
		return known.(*rate.Limiter)
	}
	limiter := rate.NewLimiter(rate.Every(time.Minute/attemptsPerMinute), attemptsPerMinute)
	f.attempts.Add(name, limiter)
	return limiter
}

// read returns the users of the file by name.
func (f *UsersFile) read() (map[string]fileUser, error) {
	content, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, fmt.Errorf("reading the users: %w", err)
	}
	var file struct {
		Users []fileUser `json:"users"`
	}
	if err := yaml.UnmarshalStrict(content, &file); err != nil {
		return nil, fmt.Errorf("users file %s must have a list users, of name, login, passwordHash and groups: %w", f.Path, err)
	}
	users := map[string]fileUser{}
	for i, user := range file.Users {
		if err := user.validate(); err != nil {
			return nil, fmt.Errorf("users file %s, user %d: %w", f.Path, i+1, err)
		}
		by := cmp.Or(user.Login, user.Name)
		if _, twice := users[by]; twice {
			return nil, fmt.Errorf("users file %s has user %q twice: remove one", f.Path, by)
		}
		users[by] = user
	}
	if len(users) == 0 {
		return nil, fmt.Errorf("users file %s has no users", f.Path)
	}
	return users, nil
}

func (u fileUser) validate() error {
	if _, err := New(u.Name, u.Groups, time.Time{}, 0); err != nil {
		return err
	}
	if _, err := bcrypt.Cost([]byte(u.PasswordHash)); err != nil {
		return fmt.Errorf("passwordHash of %q is not a bcrypt hash: make one with htpasswd -nBC 12 %s: %w", u.Name, u.Name, err)
	}
	return nil
}
