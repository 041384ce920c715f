package asynq

// ListOption says which part of a list to return: Page or PageSize.
type ListOption interface{}

type (
	pageNumOpt  int
	pageSizeOpt int
)

const defaultPageSize = 30

// Page sets which page of a list to return, 1 unless set. Numbers below 1 are taken for 1.
func Page(n int) ListOption { return pageNumOpt(max(n, 1)) }

// PageSize sets how many elements a page has, 30 unless set. A negative size is taken for 0.
func PageSize(n int) ListOption { return pageSizeOpt(max(n, 0)) }

// listWindow returns the part of a list that the options ask for.
func listWindow(opts []ListOption) (offset, limit int) {
	page, size := 1, defaultPageSize
	for _, opt := range opts {
		switch opt := opt.(type) {
		case pageNumOpt:
			page = int(opt)
		case pageSizeOpt:
			size = int(opt)
		}
	}
	return (page - 1) * size, size
}
