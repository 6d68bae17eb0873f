def call(case, wide):
    return task.run(*arguments(case, wide))
