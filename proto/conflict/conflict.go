package conflict

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// Retry calls a function that reads an object, changes and writes it, until that does not conflict: the object was
// not changed since it was read, and one that is created did not exist. It returns the function's last error.
func Retry(backoff wait.Backoff, write func() error) (err error) {
	_ = retry.OnError(backoff, is, func() error {
		err = write()
		return err
	})
	return err
}

func is(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
