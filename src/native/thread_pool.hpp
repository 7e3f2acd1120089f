// A pool of threads that take numbered tasks.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace fanbayes {

class ThreadPool {
    using Task = std::function<void(int64_t)>;

    // The tasks of one caller.
    struct Job {
        const Task& task;
        const int64_t n_tasks;
        std::atomic<int64_t> next{0};
        int busy = 0;  // threads that have come to help

        bool is_left() const { return next.load(std::memory_order_relaxed) < n_tasks; }

        void take() {
            for (int64_t k; (k = next.fetch_add(1, std::memory_order_relaxed)) < n_tasks;) task(k);
        }
    };

    // What the threads share.
    struct Work {
        std::vector<std::thread> threads;
        std::mutex mutex;
        std::condition_variable called, finished;
        std::vector<Job*> jobs;  // of callers that are still at work
        std::atomic<int64_t> calls{0};
        bool stop = false;

        Job* waiting() const {
            for (Job* job : jobs)
                if (job->is_left()) return job;
            return nullptr;
        }

        void serve() {
            std::unique_lock lock(mutex);
            for (;;) {
                if (stop) return;
                if (Job* job = waiting()) {
                    ++job->busy;
                    lock.unlock();
                    job->take();
                    lock.lock();
                    if (--job->busy == 0) finished.notify_all();
                    continue;
                }
                // Calls come in quick succession: to spin a little costs less than to sleep and be woken.
                const int64_t seen = calls;
                lock.unlock();
                const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
                while (calls == seen && std::chrono::steady_clock::now() < until) {
                }
                lock.lock();
                called.wait(lock, [&] { return stop || calls != seen; });
            }
        }
    };

    std::unique_ptr<Work> work_ = std::make_unique<Work>();
    const pid_t process_ = getpid();

    // In a process that was forked the threads are gone, and what they shared may be locked for ever.
    bool is_here() const { return getpid() == process_; }

  public:
    // The caller of `run` is one of the threads. Where there cannot be as many, those that there are do the work.
    explicit ThreadPool(int n_threads) {
        if (n_threads < 2) return;
        work_->threads.reserve(size_t(n_threads) - 1);
        try {
            for (int i = 1; i < n_threads; ++i) work_->threads.emplace_back([work = work_.get()] { work->serve(); });
        } catch (const std::exception&) {  // too many threads, or no memory for a stack
        }
    }

    ~ThreadPool() {
        if (!is_here()) {
            (void)work_.release();  // nothing of it can be joined or destroyed
            return;
        }
        {
            std::lock_guard lock(work_->mutex);
            work_->stop = true;
        }
        work_->called.notify_all();
        for (std::thread& t : work_->threads) t.join();
    }

    int n_threads() const { return 1 + int(work_->threads.size()); }

    // task(0) .. task(n - 1), in any order; none may throw. Returns when all are done. There may be several callers at
    // once: each does its own tasks, and threads that have nothing to do help one after the other.
    void run(int64_t n, const Task& task) {
        Work& work = *work_;
        if (work.threads.empty() || n == 1 || !is_here()) {
            for (int64_t k = 0; k < n; ++k) task(k);
            return;
        }
        Job job{task, n};
        {
            std::lock_guard lock(work.mutex);
            work.jobs.push_back(&job);
            ++work.calls;
        }
        work.called.notify_all();
        job.take();
        std::unique_lock lock(work.mutex);
        std::erase(work.jobs, &job);
        work.finished.wait(lock, [&] { return job.busy == 0; });
    }
};

}  // namespace fanbayes
