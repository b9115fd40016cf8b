package provisioner

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/proto/reconnect"
)

const (
	// Name is the name of the provisioner in its storage classes.
	Name = "vdi-fleet.test/hostpath"
	// User is the user of the provisioner in RBAC and audit logs.
	User = "fleet-provisioner"
	// StorageClass is the default class of every cluster.
	StorageClass = "standard"
	// FixedStorageClass has volumes that never grow.
	FixedStorageClass = "fixed"
)

// Manifest contains the storage classes, and the role of User.
const Manifest = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: ` + StorageClass + `
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: ` + Name + `
volumeBindingMode: Immediate
reclaimPolicy: Delete
allowVolumeExpansion: true
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: ` + FixedStorageClass + `}
provisioner: ` + Name + `
volumeBindingMode: Immediate
reclaimPolicy: Delete
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ` + User + `}
rules:
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [get, list, watch, create, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ` + User + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ` + User + `}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: ` + User + `}
`

// Provisioner makes a PersistentVolume for every pending claim of its storage
// class, and deletes it after the claim. The controller manager binds them.
type Provisioner struct {
	client kubernetes.Interface
	queue  workqueue.TypedRateLimitingInterface[string] // keys of claims; "/name" of volumes
	claims cache.SharedIndexInformer
	vols   cache.SharedIndexInformer
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// Start starts a provisioner, which runs until Stop even if ctx ends.
func Start(ctx context.Context, config *rest.Config) (*Provisioner, error) {
	client, err := kubernetes.NewForConfig(reconnect.Config(config))
	if err != nil {
		return nil, fmt.Errorf("starting provisioner: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	p := &Provisioner{
		client: client,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 5*time.Second)),
		claims: factory.Core().V1().PersistentVolumeClaims().Informer(),
		vols:   factory.Core().V1().PersistentVolumes().Informer(),
	}
	for _, informer := range []cache.SharedIndexInformer{p.claims, p.vols} {
		if _, err := informer.AddEventHandler(p.enqueue()); err != nil {
			return nil, fmt.Errorf("starting provisioner: %w", err)
		}
		// Tests stop API servers: these errors are expected, and the watch is retried.
		if err := informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}); err != nil {
			return nil, fmt.Errorf("starting provisioner: %w", err)
		}
	}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	factory.Start(ctx.Done())
	for range 4 {
		p.done.Go(func() {
			cache.WaitForCacheSync(ctx.Done(), p.claims.HasSynced, p.vols.HasSynced)
			for p.next(ctx) {
			}
		})
	}
	p.done.Go(func() {
		<-ctx.Done()
		p.queue.ShutDown()
		factory.Shutdown()
	})
	return p, nil
}

// Stop ends the provisioner, if there is one, and returns once it has ended.
func (p *Provisioner) Stop() {
	if p == nil {
		return
	}
	p.stop()
	p.done.Wait()
}

func (p *Provisioner) enqueue() cache.ResourceEventHandler {
	add := func(o any) {
		switch o := o.(type) {
		case *corev1.PersistentVolumeClaim:
			p.queue.Add(o.Namespace + "/" + o.Name)
		case *corev1.PersistentVolume:
			p.queue.Add("/" + o.Name)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }}
}

func (p *Provisioner) next(ctx context.Context) bool {
	key, quit := p.queue.Get()
	if quit {
		return false
	}
	defer p.queue.Done(key)
	if err := p.sync(ctx, key); err != nil {
		p.queue.AddRateLimited(key)
		return true
	}
	p.queue.Forget(key)
	return true
}

func (p *Provisioner) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	if namespace == "" {
		return p.syncVolume(ctx, name)
	}
	return p.syncClaim(ctx, namespace+"/"+name)
}

func (p *Provisioner) syncClaim(ctx context.Context, key string) error {
	item, found, err := p.claims.GetStore().GetByKey(key)
	if err != nil || !found {
		return err
	}
	claim := item.(*corev1.PersistentVolumeClaim)
	class := ptr.Deref(claim.Spec.StorageClassName, "")
	if claim.Status.Phase != corev1.ClaimPending || claim.Spec.VolumeName != "" ||
		claim.DeletionTimestamp != nil || class != StorageClass && class != FixedStorageClass {
		return nil
	}
	_, err = p.client.CoreV1().PersistentVolumes().Create(ctx, volumeFor(claim), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// syncVolume deletes a released volume. kube-controller-manager leaves that to the
// provisioner that the volume's annotation names.
func (p *Provisioner) syncVolume(ctx context.Context, name string) error {
	item, found, err := p.vols.GetStore().GetByKey(name)
	if err != nil || !found {
		return err
	}
	volume := item.(*corev1.PersistentVolume)
	if volume.Status.Phase != corev1.VolumeReleased || volume.Annotations[provisionedBy] != Name ||
		volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	err = p.client.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

const provisionedBy = "pv.kubernetes.io/provisioned-by"

func volumeFor(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	directory := corev1.HostPathDirectoryOrCreate
	name := "pvc-" + string(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{provisionedBy: Name},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      claim.Spec.Resources.Requests,
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              *claim.Spec.StorageClassName,
			VolumeMode:                    claim.Spec.VolumeMode,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/vdi-fleet/" + name, Type: &directory},
			},
		},
	}
}
